/* run.c - a launch: blocks one after the other, their waves in turns of random length from a seed, each instruction looked up once. */
#include "inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- what a wave begins with ("User Guide for AMDGPU Backend", initial kernel execution state) */

typedef struct Packet { /* of a dispatch, HSA */
    uint16_t header, setup, block[3], reserved;
    uint32_t grid[3], scratch, lds;
    uint64_t kernel, arguments, reserved2, signal;
} Packet;

typedef struct Launch {
    const Descriptor *d;
    const Packet *packet;
    const unsigned char *arguments;
    const EmuLaunch *of;
} Launch;

static bool inside(void *context, uint64_t address, size_t bytes)
{
    const Launch *l = context;
    const uint64_t arguments = (uintptr_t)l->arguments, packet = (uintptr_t)l->packet;
    if (address >= arguments && address + bytes <= arguments + l->d->arguments) return true;
    if (address >= packet && address + bytes <= packet + sizeof(Packet)) return true;
    return l->of->inside(l->of->context, address, bytes);
}

static unsigned put_scalar(Wave *w, unsigned at, uint64_t value, unsigned words)
{
    for (unsigned n = 0; n < words; n++) {
        w->s[at + n] = (uint32_t)(value >> 32 * n);
        w->s_undef[at + n] = 0;
    }
    return at + words;
}

enum { RESOURCE = 1, PACKET = 2, QUEUE = 4, ARGUMENTS = 8, ID = 16, FLAT = 32, SIZE = 64 };

static bool begin_scalars(Wave *w, const Launch *l)
{
    const Descriptor *d = l->d;
    const unsigned wants = d->properties, given = d->rsrc2 >> 1 & 31;
    unsigned at = 0;
    if (wants & (QUEUE | ID | SIZE)) {
        fail(w, "user registers that are not modelled: properties 0x%x", wants);
        return false;
    }
    if (wants & RESOURCE) {
        at = put_scalar(w, at, 0, 2);
        at = put_scalar(w, at, SCRATCH_BUFFER, 2);
    }
    if (wants & PACKET) at = put_scalar(w, at, (uintptr_t)l->packet, 2);
    if (wants & ARGUMENTS) at = put_scalar(w, at, (uintptr_t)l->arguments, 2);
    if (wants & FLAT) at = put_scalar(w, at, 0, 2);
    if (at < given)
        at = given; /* arguments loaded early: the code loads them itself when firmware did not */
    const Group *g = w->g;
    if (w->family == RDNA4) {
        put_scalar(w, S_TTMP + 9, g->id[0], 1);
        put_scalar(w, S_TTMP + 7, g->id[1] | g->id[2] << 16, 1);
    } else
        for (unsigned n = 0; n < 3; n++)
            if (d->rsrc2 >> (7 + n) & 1) at = put_scalar(w, at, g->id[n], 1);
    if (d->rsrc2 & 1) put_scalar(w, at, 0, 1); /* where this wave's scratch memory begins */
    return true;
}

static void begin_lanes(Wave *w, const Launch *l)
{
    const uint32_t *block = l->of->block;
    const unsigned ids = 1 + (l->d->rsrc2 >> 11 & 3);
    const bool packed = strcmp(w->e->machine, "gfx908") != 0 && w->family != RDNA2;
    uint64_t exec = 0;
    for (unsigned lane = 0; lane < w->lanes; lane++) {
        const uint32_t at = w->number * w->lanes + lane;
        const uint32_t id[3] = {at % block[0], at / block[0] % block[1], at / block[0] / block[1]};
        if (id[2] >= block[2]) continue;
        exec |= 1ull << lane;
        for (unsigned n = 0; n < ids; n++)
            if (packed)
                w->v[0][lane] |= id[n] << 10 * n;
            else
                w->v[n][lane] = id[n];
    }
    for (unsigned n = 0; n < (packed ? 1 : ids); n++) w->undef[0][n] = w->undef[1][n] = ~exec;
    put_scalar(w, S_EXEC, exec, 2);
}

static bool begin_wave(Wave *w, Group *g, unsigned number, const Launch *l)
{
    uint8_t *scratch = w->scratch, *set = w->scratch_set;
    memset(w, 0, sizeof *w);
    w->scratch = scratch;
    w->scratch_set = set;
    if (scratch) memset(set, 0, (size_t)LANES * g->scratch_bytes);
    w->g = g;
    w->e = g->e;
    w->family = g->e->family;
    w->wide = !(l->d->properties >> 10 & 1);
    w->lanes = w->wide ? 64 : 32;
    w->number = number;
    w->pc = w->next = l->d->entry;
    memset(w->undef, 0xff, sizeof w->undef);
    memset(w->s_undef, 0xff, sizeof w->s_undef);
    w->scc_undef = true;
    begin_lanes(w, l);
    return begin_scalars(w, l);
}

/* ---- turns */

/* The two halves of a pair read before either writes. */
static void run_two(Wave *w, const Inst *in)
{
    const unsigned reg = in->o[0].reg;
    uint32_t before[LANES], after[LANES];
    uint64_t undef[2][2];
    memcpy(before, w->v[reg], sizeof before);
    for (int half = 0; half < 2; half++) undef[0][half] = w->undef[half][reg];
    in->op->run(w, in);
    memcpy(after, w->v[reg], sizeof after);
    memcpy(w->v[reg], before, sizeof before);
    for (int half = 0; half < 2; half++) {
        undef[1][half] = w->undef[half][reg];
        w->undef[half][reg] = undef[0][half];
    }
    in->second->op->run(w, in->second);
    memcpy(w->v[reg], after, sizeof after);
    for (int half = 0; half < 2; half++) w->undef[half][reg] = undef[1][half];
}

static void run_indexed(Wave *w, const Inst *in)
{
    Inst moved = *in;
    for (unsigned n = 0; n < in->count && n < 4; n++)
        if (in->o[n].kind == O_VECTOR && (w->indexed >> (n ? n - 1 : 3) & 1))
            moved.o[n].reg += w->index;
    in->op->run(w, &moved);
}

static bool is_narrow_read(const Inst *in)
{
    static const char *const names[] = {"ds_read_u16", "ds_read_i16", "ds_load_u16", "ds_load_i16"};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++)
        if (strncmp(in->op->name, names[n], strlen(names[n])) == 0) return true;
    return false;
}

static void count(Wave *w, const Inst *in)
{
    EmuCounts *c = &w->e->counts;
    const unsigned lanes = (unsigned)__builtin_popcountll(exec_of(w));
    c->instructions[in->op->klass]++;
    c->cycles[in->op->klass] += in->cycles;
    c->narrow_reads += in->narrow;
    c->lanes += in->op->klass == EMU_SCALAR || in->op->klass == EMU_WAIT ? 1 : lanes;
}

static void step(Wave *w)
{
    w->pc = w->next;
    Inst *in = decode(w, w->pc);
    if (!in) return;
    if (!in->op || (in->second && !in->second->op)) {
        fail(w, "the emulator does not know it");
        return;
    }
    if (!in->cycles) {
        in->cycles = cycles_of(w, in);
        in->narrow = is_narrow_read(in);
    }
    w->next = w->pc + in->bytes;
    count(w, in);
    if (in->second)
        run_two(w, in);
    else if (w->indexed && in->op->klass == EMU_VECTOR)
        run_indexed(w, in);
    else
        in->op->run(w, in);
}

static uint32_t draw(Emulator *e, uint32_t below)
{
    e->random = e->random * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(e->random >> 33) % below;
}

/* When all have come. */
static void pass_barrier(Group *g, Wave *waves)
{
    unsigned waiting = 0, ended = 0;
    for (unsigned n = 0; n < g->waves; n++) {
        waiting += waves[n].waiting;
        ended += waves[n].ended;
    }
    if (waiting + ended < g->waves || waiting == 0) return;
    for (unsigned n = 0; n < g->waves; n++) {
        if (waves[n].waiting && ended)
            fail(&waves[n], "a barrier that not all waves of the block come to");
        waves[n].waiting = false;
    }
    g->epoch++;
}

static void run_group(Group *g, Wave *waves, const Launch *l)
{
    Emulator *e = g->e;
    memset(g->lds, e->lds_poison, g->lds_bytes);
    memset(g->shadow, 0, g->lds_bytes * sizeof *g->shadow);
    g->epoch = 0;
    for (unsigned n = 0; n < g->waves && !e->failed; n++) begin_wave(&waves[n], g, n, l);
    for (bool left = true; left && !e->failed;) {
        const unsigned first = draw(e, g->waves);
        left = false;
        for (unsigned i = 0; i < g->waves; i++) {
            Wave *w = &waves[(first + i) % g->waves];
            for (uint32_t turn = 1 + draw(e, 200);
                 turn > 0 && !w->ended && !w->waiting && !e->failed; turn--)
                step(w);
            left |= !w->ended;
        }
        if (!e->failed) pass_barrier(g, waves);
    }
}

static bool run_blocks(Emulator *e, const EmuLaunch *launch, const Launch *l, Wave *waves, Group *g)
{
    for (uint32_t z = 0; z < launch->grid[2]; z++)
        for (uint32_t y = 0; y < launch->grid[1]; y++)
            for (uint32_t x = 0; x < launch->grid[0] && !e->failed; x++) {
                g->id[0] = x, g->id[1] = y, g->id[2] = z;
                run_group(g, waves, l);
            }
    return !e->failed;
}

/* Seconds of this thread. */
static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* MODE as all kernels of LLVM's have it: to nearest, denormals kept; and what clamp makes of a NaN is 0 (gfx12 knows nothing else). */
static bool is_modelled(const Emulator *e, const Descriptor *d)
{
    enum { ROUND = 0xf000, DENORMALS = 0xf0000, DX10_CLAMP = 0x200000 };
    return (d->rsrc1 & (ROUND | DENORMALS)) == DENORMALS &&
           (e->family == RDNA4 || d->rsrc1 & DX10_CLAMP);
}

bool emu_run(Emulator *e, const EmuLaunch *launch)
{
    Descriptor d;
    e->failed = false;
    snprintf(e->kernel, sizeof e->kernel, "%s", launch->kernel);
    if (!object_find(e, launch->kernel, &d)) {
        snprintf(e->error, sizeof e->error, "there is no kernel %s", launch->kernel);
        return false;
    }
    if (!is_modelled(e, &d)) {
        snprintf(e->error, sizeof e->error, "%s: modes of numbers that are not modelled: 0x%x",
                 launch->kernel, (unsigned)d.rsrc1);
        return false;
    }
    const uint32_t threads = launch->block[0] * launch->block[1] * launch->block[2];
    const uint32_t lanes = d.properties >> 10 & 1 ? 32 : 64;
    unsigned char *arguments = calloc(d.arguments + 1, 1);
    memcpy(arguments, launch->arguments, d.arguments);
    const Packet packet = {.setup = 3,
                           .block = {(uint16_t)launch->block[0], (uint16_t)launch->block[1],
                                     (uint16_t)launch->block[2]},
                           .grid = {launch->grid[0] * launch->block[0],
                                    launch->grid[1] * launch->block[1],
                                    launch->grid[2] * launch->block[2]},
                           .scratch = d.scratch,
                           .lds = d.lds,
                           .arguments = (uintptr_t)arguments};
    const Launch l = {&d, &packet, arguments, launch};
    EmuLaunch watched = *launch;
    watched.inside = inside;
    watched.context = (void *)(uintptr_t)&l;
    Group g = {.e = e,
               .launch = &watched,
               .waves = (threads + lanes - 1) / lanes,
               .lds_bytes = d.lds,
               .scratch_bytes = d.scratch};
    if (g.waves == 0 || g.waves > MOST_WAVES) {
        snprintf(e->error, sizeof e->error, "%s: %u waves in a block", launch->kernel,
                 (unsigned)g.waves);
        free(arguments);
        return false;
    }
    g.lds = calloc(d.lds + 1u, 1);
    g.shadow = calloc(d.lds + 1u, sizeof *g.shadow);
    Wave *waves = calloc(g.waves, sizeof *waves);
    for (unsigned n = 0; n < g.waves && d.scratch; n++) {
        waves[n].scratch = calloc(LANES, d.scratch);
        waves[n].scratch_set = calloc(LANES, d.scratch);
    }
    g.wave = waves;
    e->random = launch->seed;
    e->errors = launch->errors;
    e->lds_poison = 0xff; /* a NaN of every type */
    const double begin = now();
    run_blocks(e, launch, &l, waves, &g);
    e->counts.seconds += now() - begin;
    for (unsigned n = 0; n < g.waves; n++) {
        free(waves[n].scratch);
        free(waves[n].scratch_set);
    }
    free(waves);
    free(g.lds);
    free(g.shadow);
    free(arguments);
    return !e->failed;
}

/* ---- mistakes, for tests */

static void spoil(Inst *in, EmuMistake mistake)
{
    const Inst before = *in;
    const Operand first = in->o[1];
    switch (mistake) {
    case EMU_REMOVED:
        free(in->second);
        memset(in, 0, sizeof *in);
        decode_text(in, "s_nop 0");
        in->address = before.address;
        in->bytes = before.bytes;
        break;
    case EMU_SWAPPED:
        in->o[1] = in->o[2];
        in->o[2] = first;
        break;
    case EMU_SHIFTED: in->o[0].reg++; break;
    case EMU_ALONE: in->m.dpp = DPP_NONE; break;
    }
}

bool emu_plant(Emulator *e, const char *kernel, const char *text, unsigned at, EmuMistake mistake)
{
    Descriptor d;
    unsigned seen = 0;
    bool planted = false;
    if (!object_find(e, kernel, &d)) return false;
    Group g = {.e = e};
    Wave *w = calloc(1, sizeof *w);
    w->e = e;
    w->g = &g;
    for (uint64_t pc = d.entry; pc < e->text_at + e->text_bytes && !planted;) {
        Inst *in = decode(w, pc);
        if (!in || !in->bytes || (in->op && strcmp(in->op->name, "s_endpgm") == 0)) break;
        pc += in->bytes;
        if (strncmp(in->text, text, strlen(text)) != 0 || seen++ != at) continue;
        spoil(in, mistake);
        planted = true;
    }
    free(w);
    return planted;
}
