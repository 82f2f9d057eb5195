/* waits.c - what was issued and is not known to be done: registers that a load will write are poison until a wait covers them, and so are
 * bytes of LDS for the other waves. Vector memory instructions end in order, scalar loads in any: of those only a wait for all helps. */
#include "inside.h"

#include <stdio.h>
#include <stdlib.h>

/* One counter for loads and stores before RDNA, one for LDS and scalar loads before RDNA4. */
Counter family_counter(const Wave *w, Counter counter)
{
    if (counter == C_STORE && w->family == CDNA) return C_LOAD;
    if (counter == C_SCALAR && w->family != RDNA4) return C_LDS;
    return counter;
}

bool is_pending(const Wave *w, Pending p) { return p.at > w->done[p.counter]; }

uint32_t issue(Wave *w, Counter counter, bool in_order)
{
    const Counter c = family_counter(w, counter);
    const uint32_t at = ++w->issued[c];
    if (!in_order) w->unordered[c] = at;
    return at;
}

void set_pending(Wave *w, unsigned reg, unsigned count, Counter counter, uint32_t at)
{
    for (unsigned n = reg; n < reg + count && n < VGPRS; n++)
        w->v_pending[n] = (Pending){(uint8_t)family_counter(w, counter), at};
}

static void wait_until(Wave *w, Counter counter, uint32_t left)
{
    const Counter c = family_counter(w, counter);
    const uint32_t done = w->issued[c] > left ? w->issued[c] - left : 0;
    if (left > 0 && w->unordered[c] > w->done[c]) return; /* any of them may be those that ended */
    if (done > w->done[c]) w->done[c] = done;
}

/* May this wave read or write the byte, by what it and others wrote there? */
static bool lds_ready(Wave *w, uint32_t n)
{
    const LdsByte *byte = &w->g->shadow[n];
    const bool another = byte->written && byte->writer != w->number,
               new = byte->written == w->g->epoch + 1;
    if (another && (new || byte->at > w->g->wave[byte->writer].released[byte->counter]))
        fail(w, "LDS byte %u: wave %u wrote it, and %s is between", n, byte->writer,
             new ? "no barrier" : "no wait before the barrier");
    else if (byte->written && !another && byte->counter != family_counter(w, C_LDS) &&
             byte->at > w->done[byte->counter]) /* LDS's own are in their order */
        fail(w, "LDS byte %u is used before the wait for the copy that writes it", n);
    return !w->e->failed;
}

void lds_read(Wave *w, uint32_t address, uint32_t bytes)
{
    const uint32_t now = w->g->epoch + 1;
    const uint16_t me = (uint16_t)(1u << w->number);
    for (uint32_t n = address; n < address + bytes && lds_ready(w, n); n++) {
        LdsByte *byte = &w->g->shadow[n];
        byte->readers = byte->read == now ? byte->readers | me : me;
        byte->read = now;
    }
}

/* Done when the counter is at [at]. */
void lds_write(Wave *w, uint32_t address, uint32_t bytes, Counter counter, uint32_t at)
{
    const uint32_t now = w->g->epoch + 1;
    const uint16_t me = (uint16_t)(1u << w->number);
    for (uint32_t n = address; n < address + bytes && lds_ready(w, n); n++) {
        LdsByte *byte = &w->g->shadow[n];
        if (byte->read == now && (byte->readers & ~me)) {
            fail(w, "LDS byte %u: another wave read it, and no barrier is between", n);
            return;
        }
        byte->written = now;
        byte->writer = (uint16_t)w->number;
        byte->at = at;
        byte->counter = (uint8_t)family_counter(w, counter);
    }
}

/* What this wave did not wait for before the barrier is not there behind it, either. */
void lds_barrier(Wave *w) { memcpy(w->released, w->done, sizeof w->released); }

/* ---- the instructions */

static void run_waitcnt(Wave *w, const Inst *in)
{
    static const struct {
        const char *name;
        Counter counter;
    } names[] = {{"vmcnt(", C_LOAD}, {"lgkmcnt(", C_LDS}};
    for (size_t n = 0; n < 2; n++) {
        const char *at = strstr(in->text, names[n].name);
        if (at) wait_until(w, names[n].counter, (uint32_t)atoi(strchr(at, '(') + 1));
    }
}

static void run_wait_one(Wave *w, const Inst *in)
{
    const Operand *o = &in->o[in->count - 1];
    wait_until(w, (Counter)in->op->more, (uint32_t)o->number);
}

/* Of gfx12: two counters, the low byte is LDS's. */
static void run_wait_two(Wave *w, const Inst *in)
{
    const uint32_t both = (uint32_t)in->o[0].number;
    wait_until(w, (Counter)in->op->more, both >> 8);
    wait_until(w, C_LDS, both & 0xff);
}

static void run_nothing(Wave *w, const Inst *in) { (void)w, (void)in; }

const Op wait_ops[] = {
    {"s_waitcnt", "raw", run_waitcnt, NULL, 0, EMU_WAIT},
    {"s_waitcnt_vscnt", "", run_wait_one, NULL, C_STORE, EMU_WAIT},
    {"s_waitcnt_vmcnt", "", run_wait_one, NULL, C_LOAD, EMU_WAIT},
    {"s_waitcnt_lgkmcnt", "", run_wait_one, NULL, C_LDS, EMU_WAIT},
    {"s_wait_loadcnt", "", run_wait_one, NULL, C_LOAD, EMU_WAIT},
    {"s_wait_storecnt", "", run_wait_one, NULL, C_STORE, EMU_WAIT},
    {"s_wait_dscnt", "", run_wait_one, NULL, C_LDS, EMU_WAIT},
    {"s_wait_kmcnt", "", run_wait_one, NULL, C_SCALAR, EMU_WAIT},
    {"s_wait_loadcnt_dscnt", "", run_wait_two, NULL, C_LOAD, EMU_WAIT},
    {"s_wait_storecnt_dscnt", "", run_wait_two, NULL, C_STORE, EMU_WAIT},
    /* Hints, and waits for what is always done here. */
    {"s_nop", "raw", run_nothing, NULL, 0, EMU_WAIT},
    {"v_nop", "raw", run_nothing, NULL, 0, EMU_VECTOR},
    {"s_delay_alu", "raw", run_nothing, NULL, 0, EMU_WAIT},
    {"s_wait_alu", "raw", run_nothing, NULL, 0, EMU_WAIT},
    {"s_waitcnt_depctr", "raw", run_nothing, NULL, 0, EMU_WAIT},
    {"s_clause", "raw", run_nothing, NULL, 0, EMU_SCALAR},
    {"s_set_inst_prefetch_distance", "raw", run_nothing, NULL, 0, EMU_SCALAR},
    {"s_inst_prefetch", "raw", run_nothing, NULL, 0, EMU_SCALAR},
    {"s_setprio", "raw", run_nothing, NULL, 0, EMU_SCALAR},
    {"s_sendmsg", "raw", run_nothing, NULL, 0, EMU_SCALAR},
    {"s_code_end", "raw", run_nothing, NULL, 0, EMU_SCALAR},
    {"buffer_gl0_inv", "raw", run_nothing, NULL, 0, EMU_MEMORY},
    {"buffer_gl1_inv", "raw", run_nothing, NULL, 0, EMU_MEMORY},
    {"buffer_inv", "raw", run_nothing, NULL, 0, EMU_MEMORY},
    {"buffer_wbl2", "raw", run_nothing, NULL, 0, EMU_MEMORY},
    {"buffer_wbinvl1", "raw", run_nothing, NULL, 0, EMU_MEMORY},
    {"buffer_wbinvl1_vol", "raw", run_nothing, NULL, 0, EMU_MEMORY},
    {"global_inv", "raw", run_nothing, NULL, 0, EMU_MEMORY},
    {"global_wb", "raw", run_nothing, NULL, 0, EMU_MEMORY},
    {NULL, NULL, NULL, NULL, 0, 0},
};
