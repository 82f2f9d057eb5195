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
bool channels_is_before(
    const LinearBack *b); /* queries, or what stands for them, read before their token */
bool channels_has_bonus(const LinearBack *b);
/* "dq_1"; of a group of tokens on one of the two axes, "sum_r_1"; its tokens, "16 +: 16". */
const char *channels_numbered(LinearBack *b, const char *name, int32_t group);
const char *channels_on_axis(LinearBack *b, const char *name, const char *axis, int32_t group);
const char *channels_tokens(LinearBack *b, int32_t group);

/* linear_warps_channels_strip.c: fragments; gradients of a strip: of queries in the memory Made, of decays in that of the sums, G, of keys and of
 * what a bonus gets in `dk_0` .. and `dbonus_0` ..; keys kept until the chunk's end in K. */
void channels_strip_declare(LinearBack *b);
void channels_strip_back(LinearBack *b, const ChannelsStrip *s);

/* What a query of the group, or what stands for it, has of the sums; a row as f32. */
const char *channels_reads(LinearBack *b, const char *axis, int32_t g);
const char *channels_row(LinearBack *b, const char *name, const char *axis, int32_t g);
/* `p` in two numbers an element; the gradient of decays of group [to] gets what they make by the tile [view] of ones; both. */
void channels_split_rates(LinearBack *b);
void channels_add_to_rates(LinearBack *b, int32_t to, const char *view);
void channels_add_rates(LinearBack *b, int32_t to, const char *view);
const char *channels_ones_between(LinearBack *b, bool behind, int32_t from, int32_t to);

/* linear_warps_channels_levels.c: a group's rows of a level of halves of [h] tokens as an operand; what the level gives to a group. */
void channels_make_operand(LinearBack *b, const ChannelsStrip *s, int32_t g, int32_t h);
void channels_level_back(LinearBack *b, const ChannelsStrip *s, int32_t g, int32_t h,
                         int32_t level);

/* linear_warps_own_back.c: with feedback `own`. Gradients of pairs: where they are, those of near levels, those of tokens with themselves, NULL:
 * none; of y, not of the output's; of values, not of what is fed back. */
typedef struct ChannelsPairs {
    const char *memory, *near, *own;
    bool of_solution, of_values;
} ChannelsPairs;
int32_t channels_kinds(const LinearBack *b); /* without feedback the first one */
const ChannelsPairs *channels_kind(int32_t kind);
void channels_own_memories(LinearBack *b);
void channels_own_arguments(LinearBack *b);
void channels_own_issue(LinearBack *b);
void channels_own_wait(LinearBack *b);
void channels_own_declare(LinearBack *b, int32_t g);
void channels_own_load(LinearBack *b, const ChannelsStrip *s, int32_t g);
void channels_own_ends(LinearBack *b, int32_t g, AuTileProduct how, const char *columns);
void channels_own_through_ends(LinearBack *b, int32_t g, bool of_writers, const char *kept);
void channels_own_far(LinearBack *b, int32_t g, int32_t from, bool is_first, bool reads);
void channels_own_level(LinearBack *b, int32_t g, int32_t h);
void channels_own_rows(LinearBack *b, const char *axis, int32_t g, const char *is_read);
void channels_own_operands(LinearBack *b, int32_t g);
void channels_own_near(LinearBack *b, const ChannelsStrip *s, int32_t g);
void channels_own_writers(LinearBack *b, int32_t g);
void channels_own_queries(LinearBack *b, int32_t g);

#endif
