/* banks.c - what accesses to LDS take of its banks: 32 of a word each, that give one word a cycle. By the documents' rate of 128 bytes a cycle lanes
 * are served in groups whose words are 128 bytes, one after the other; words of one bank take a cycle each, the same word of several lanes
 * one. Which lanes a group has for accesses of 8 and 16 bytes the documents do not say: neighbours, here. */
#include "inside.h"

enum { BANKS = 32, WORD = 4 };

/* Cycles of a group: the most words that one bank has to give. */
static unsigned cycles_of(const uint32_t *words, unsigned count)
{
    unsigned most = 0, of_bank[BANKS] = {0};
    for (unsigned n = 0; n < count; n++) {
        bool again = false;
        for (unsigned before = 0; before < n && !again; before++) again = words[before] == words[n];
        const unsigned now = again ? 0 : ++of_bank[words[n] % BANKS];
        if (now > most) most = now;
    }
    return most;
}

void lds_banks(Wave *w, const Vec *address, uint32_t offset, unsigned bytes, uint64_t lanes)
{
    const unsigned each = bytes < WORD ? 1 : bytes / WORD, group = BANKS / each;
    for (unsigned first = 0; first < LANES; first += group) {
        uint32_t words[BANKS];
        unsigned count = 0;
        for (unsigned n = first; n < first + group; n++)
            for (unsigned i = 0; i < each && lanes >> n & 1; i++)
                words[count++] = (address->u[n] + offset) / WORD + i;
        const unsigned cycles = cycles_of(words, count);
        w->e->counts.bank_cycles += cycles;
        w->e->counts.conflicts += cycles > 1 ? cycles - 1 : 0;
    }
}
