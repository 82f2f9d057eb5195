/* linear_warps_channels.h - what the kernel `chunks` of gradients beside decays a channel is made of. */
#ifndef AU_SCHEDULE_LINEAR_WARPS_CHANNELS_H
#define AU_SCHEDULE_LINEAR_WARPS_CHANNELS_H

#include "linear_warps.h"

enum {
    CHANNELS_UNIT = LINEAR_ROWS, /* tokens of a group, channels of a strip */
    CHANNELS_NEAR = 4,           /* levels of pairs of a group's own tokens */
    CHANNELS_PART = 64           /* value columns of an operand at once */
};

typedef struct ChannelsStrip {
    const char *unit, *channels, *first; /* "self", "self * 16 +: 16", "self * 16" */
} ChannelsStrip;

int32_t channels_groups(const LinearBack *b); /* of the chunk's tokens */
bool channels_is_weighed(const LinearBack *b);
bool channels_is_before(const LinearBack *b);
bool channels_has_bonus(const LinearBack *b);
/* "dq_1"; of a group of tokens on one of the two axes, "sum_r_1"; its tokens, "16 +: 16". */
const char *channels_numbered(LinearBack *b, const char *name, int32_t group);
const char *channels_on_axis(LinearBack *b, const char *name, const char *axis, int32_t group);
const char *channels_tokens(LinearBack *b, int32_t group);

/* linear_warps_channels_strip.c: fragments; gradients of a strip: of queries in the memory Made, of decays in that of the sums, G, of keys and of
 * what a bonus gets in `dk_0` .. and `dbonus_0` ..; keys kept until the chunk's end in K. */
void channels_strip_declare(LinearBack *b);
void channels_strip_back(LinearBack *b, const ChannelsStrip *s);

#endif
