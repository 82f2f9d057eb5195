/* maps.h - tensor maps of launches (aule_map_v1): which calls they can describe, and what a launch hands to the backend. */
#ifndef AU_RUNTIME_MAPS_H
#define AU_RUNTIME_MAPS_H

#include "plan.h"

/* Can all maps of the variant be encoded for a call's tensors, as they lie? */
bool rt_maps_fit(const aule_attention_v1 *attention, const aule_variant_v1 *variant,
                 const AuBound *bound);

/* Sizes and strides of all maps of the variant, one launch behind the other. */
aule_status rt_lay_out_maps(const aule_attention_v1 *attention, const aule_variant_v1 *variant,
                            const AuBound *bound, AuMapView *views, AuSink sink);

/* New addresses of a plan: those that its maps describe must be multiples of 16 bytes. */
aule_status rt_check_map_addresses(const aule_plan *plan, const aule_address *at, AuSink sink);

#endif
