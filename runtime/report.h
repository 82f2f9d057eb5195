/* report.h - the lists of a call (where sequences begin, tables of pages, lengths, slots) where the host reads them: in place, or copies
 * of what a device has, whose runs are done. */
#ifndef RT_REPORT_H
#define RT_REPORT_H

#include "plan.h"

typedef struct AuHostLists {
    aule_address at
        [AULE_MAX_TENSORS]; /* of lists where the host reads them; of other tensors where they are */
    void *copies[AULE_MAX_TENSORS];
    uint32_t count;
} AuHostLists;

/* Whether it fails or not, rt_host_lists_free must follow. */
aule_status rt_host_lists(const aule_plan *plan, const aule_address *at, AuHostLists *lists,
                          AuSink sink);
void rt_host_lists_free(AuHostLists *lists);

#endif
