/* linear_channels.h - what the schedules of decays of a number a channel share (linear_channels.c, linear_channels_backward.c): chunks
 * whose factors lie in memory, [kv, d], channels along the lanes. K and G hold a chunk's keys and log decays. */
#ifndef AU_SCHEDULE_LINEAR_CHANNELS_H
#define AU_SCHEDULE_LINEAR_CHANNELS_H

#include "linear.h"

/* Factors, decays; Left, keys times what decays leave of them at the chunk's end; Whole, what the chunk leaves of a state. */
void lin_channels_memory(Linear *l);
void lin_channels_declare(Linear *l); /* rows of channels: `line`, `factor`, `until` */
/* Loops over `token` from the first, over `place` from the last. */
void lin_channels_up(Linear *l);
void lin_channels_down(Linear *l);
/* Makes these of K and G. keeps: what is left of each token goes to the memory Until, too; weighs: Left has strengths, of W, too. */
void lin_channels_until(Linear *l, bool keeps, bool weighs);
/* NULL, or why neither of them does. */
const char *lin_channels_refusal(const AuProblem *p, const AuShape *s);
int32_t lin_channels_tokens(const AuProblem *p); /* of a chunk, by rule */

#endif
