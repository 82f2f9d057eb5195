/* variant.h - which of an artifact's variants serves a call on a device: the one whose architecture suits the device best (its own before
 * those that came before it), and among equals the first, for the compiler sorted them. */
#ifndef AU_RUNTIME_VARIANT_H
#define AU_RUNTIME_VARIANT_H

#include "device.h"
#include "signature.h"

/* Would any variant of any operation run on such a device, by target, architecture and features? */
bool rt_any_variant_fits(const aule_attention *attention, const aule_device_info *info);
/* Where none fits: "; hip:0: the artifact has no kernel for it, only for gfx942, gfx1100". */
void rt_no_variant_text(AuText *text, const aule_attention *attention,
                        const aule_device_info *info);
/* Is any for that backend at all? */
bool rt_any_variant_for(const aule_attention *attention, const AuBackend *backend);

/* AULE_ERROR_UNSUPPORTED says what was asked for, what the artifact has, and how to compile what is missing. */
aule_status rt_choose_variant(const aule_attention_v1 *attention, const aule_device *device,
                              const AuBound *bound, const char *operation, const char *arch,
                              bool invariant, const aule_variant_v1 **variant, AuSink sink);

/* Is the variant one that the call may have, if the device and the memory of its tensors suit it? */
bool rt_is_asked_for(const aule_attention_v1 *attention, const aule_variant_v1 *variant,
                     const AuBound *bound, const char *operation, const char *arch, bool invariant);

/* Is the variant for such sizes and parameters? */
bool rt_meets_condition(const aule_attention_v1 *attention, const aule_variant_v1 *variant,
                        const AuBound *bound);

/* Adds "cpu x86-64-v4 bf16 D=64 E=64". */
void rt_variant_text(AuText *text, const aule_attention_v1 *attention,
                     const aule_variant_v1 *variant);

#endif
