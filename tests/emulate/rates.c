/* rates.c - cycles in which an instruction keeps its SIMD from others of its wave, by rates.def. What it waits for is not in them. */
#include "inside.h"

#include <stdlib.h>

static const char *const machines[] = {"gfx908",  "gfx90a",  "gfx942", "gfx950",
                                       "gfx1030", "gfx1100", "gfx1200"};
enum { MACHINES = sizeof machines / sizeof *machines };

static const struct {
    const char *begin;
    uint8_t turns[MACHINES];
} rates[] = {
#define RATE(begin, ...) {begin, {__VA_ARGS__}},
#include "rates.def"
#undef RATE
};

static unsigned turns_of(const Wave *w, const Inst *in)
{
    unsigned machine = 0;
    while (machine < MACHINES - 1 && strcmp(w->e->machine, machines[machine]) != 0) machine++;
    if (strcmp(in->op->name, "s_nop") == 0) /* as many as it says and one */
        return (unsigned)atoi(in->text + strlen("s_nop")) + 1;
    for (size_t n = 0; n < sizeof rates / sizeof *rates; n++)
        if (strncmp(in->op->name, rates[n].begin, strlen(rates[n].begin)) == 0)
            return rates[n].turns[machine] ? rates[n].turns[machine] : 1;
    return 1;
}

uint32_t cycles_of(const Wave *w, const Inst *in)
{
    enum { CDNA_TURN = 4, RDNA_TURN = 1 };
    unsigned turns = turns_of(w, in);
    if (in->second) { /* at the same time */
        const unsigned second = turns_of(w, in->second);
        turns = second > turns ? second : turns;
    }
    return turns * (w->family == CDNA ? CDNA_TURN : RDNA_TURN);
}
