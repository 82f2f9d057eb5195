/* check_recurrence.h - the laws of recurrences tried on one script, for aulec_check. */
#ifndef AU_DRIVER_CHECK_RECURRENCE_H
#define AU_DRIVER_CHECK_RECURRENCE_H

#include "attn.h"
#include "aule/aulec.h"

/* Writes the report; what does not hold is a diagnostic, too. */
bool check_recurrence(AuArena *arena, AuDiags *diags, AuAttn *a, const aulec_check_options *options,
                      AuText *out);

#endif
