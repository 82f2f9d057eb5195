/* banks.c - what accesses to LDS take of its banks, a word each: 32 that give 128 bytes a cycle, on gfx950, whose LDS has 160 KB, 64, of which half
 * give theirs in a cycle, since there, too, the documents have 128 bytes (the number of banks: Composable Kernel's get_n_lds_banks). Lanes
 * are served in groups with a word for each bank, one after the other; words of one bank are given one after the other, the same word to several
 * lanes at once. Which lanes a group has for accesses of 8 and 16 bytes the documents do not say: neighbours, here. */
#include "inside.h"

enum { MOST_BANKS = 64, WORD = 4, WORDS_A_CYCLE = 32 };

static unsigned banks_of(const Emulator *e) { return strcmp(e->machine, "gfx950") == 0 ? 64 : 32; }

/* The most words that one bank has to give to a group. */
static unsigned most_of(const uint32_t *words, unsigned count, unsigned banks)
{
    unsigned most = 0, of_bank[MOST_BANKS] = {0};
    for (unsigned n = 0; n < count; n++) {
        bool again = false;
        for (unsigned before = 0; before < n && !again; before++) again = words[before] == words[n];
        const unsigned now = again ? 0 : ++of_bank[words[n] % banks];
        if (now > most) most = now;
    }
    return most;
}

void lds_banks(Wave *w, const Vec *address, uint32_t offset, unsigned bytes, uint64_t lanes)
{
    const unsigned banks = banks_of(w->e), each = bytes < WORD ? 1 : bytes / WORD;
    const unsigned group = banks / each, turn = banks / WORDS_A_CYCLE;
    for (unsigned first = 0; first < LANES; first += group) {
        uint32_t words[MOST_BANKS];
        unsigned count = 0;
        for (unsigned n = first; n < first + group && n < LANES; n++)
            for (unsigned i = 0; i < each && lanes >> n & 1; i++)
                words[count++] = (address->u[n] + offset) / WORD + i;
        const unsigned most = most_of(words, count, banks);
        w->e->counts.bank_cycles += most * turn;
        w->e->counts.conflicts += most > 1 ? (most - 1) * turn : 0;
    }
}
