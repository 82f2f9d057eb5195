/* driver.c - see driver.h.
 *     FUZZER ROUNDS SEED WORDS FOLDER...     mutates the files of the folders; WORDS is a file with one word a line to insert
 *     FUZZER FILE                            runs one input, to look at what went wrong
 * Every round has its own generator: a failure says which round it was, and ends with the input in the file fuzz-failure. */
#include "driver.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LARGEST = 1 << 14, MOST_FILES = 512, MOST_WORDS = 512 };

typedef struct Bytes {
    uint8_t *at;
    size_t size;
} Bytes;

typedef struct Corpus {
    Bytes files[MOST_FILES];
    size_t count;
    Bytes words[MOST_WORDS];
    size_t word_count;
} Corpus;

static volatile uint64_t running_round;
static size_t running_size;
static uint8_t running_input[LARGEST];

/* xorshift64*, Vigna 2016. */
static uint64_t next(uint64_t *state)
{
    uint64_t x = *state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return x * 0x2545F4914F6CDD1Du;
}

static size_t below(uint64_t *state, size_t bound)
{
    return bound ? (size_t)(next(state) >> 11) % bound : 0;
}

static Bytes read_whole(const char *path)
{
    Bytes b = {NULL, 0};
    FILE *file = fopen(path, "rb");
    if (!file) return b;
    b.at = malloc(LARGEST);
    if (b.at) b.size = fread(b.at, 1, LARGEST, file);
    fclose(file);
    return b;
}

static int is_visible(const struct dirent *entry) { return entry->d_name[0] != '.'; }

/* In the order of names, so that a round is the same round in every checkout. */
static void read_corpus(Corpus *c, const char *folder)
{
    struct dirent **entries;
    const int count = scandir(folder, &entries, is_visible, alphasort);
    for (int n = 0; n < count; n++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, entries[n]->d_name);
        free(entries[n]);
        const Bytes b = read_whole(path);
        if (b.size && c->count < MOST_FILES)
            c->files[c->count++] = b;
        else
            free(b.at);
    }
    if (count >= 0) free(entries);
}

static void read_words(Corpus *c, const char *path)
{
    Bytes b = read_whole(path);
    for (size_t i = 0; i < b.size && c->word_count < MOST_WORDS;) {
        size_t end = i;
        while (end < b.size && b.at[end] != '\n') end++;
        if (end > i) c->words[c->word_count++] = (Bytes){b.at + i, end - i};
        i = end + 1;
    }
}

/* Puts [what] in place of bytes [at, end) of the input. */
static size_t put(uint8_t *input, size_t size, size_t at, size_t end, Bytes what)
{
    static uint8_t copy[LARGEST];
    if (size - (end - at) + what.size > LARGEST) return size;
    memcpy(copy, what.at, what.size);
    memmove(input + at + what.size, input + end, size - end);
    memcpy(input + at, copy, what.size);
    return size - (end - at) + what.size;
}

static size_t mutate(const Corpus *c, uint64_t *state, uint8_t *input, size_t size)
{
    const Bytes other = c->files[below(state, c->count)];
    const size_t at = below(state, size + 1),
                 end = at + below(state, size - at < 24 ? size - at + 1 : 24);
    const size_t from = below(state, other.size),
                 length = below(state, other.size - from < 200 ? other.size - from + 1 : 200);
    uint8_t byte = (uint8_t)next(state);
    switch (below(state, 8)) {
    case 0: return put(input, size, at, end, (Bytes){&byte, 1});
    case 1: return put(input, size, at, at, (Bytes){&byte, 1});
    case 2: return put(input, size, at, end, (Bytes){input, 0});
    case 3:
        if (size) input[below(state, size)] ^= (uint8_t)(1u << below(state, 8));
        return size;
    case 4: return put(input, size, at, at, (Bytes){input + at, end - at}); /* twice */
    case 5: return put(input, size, at, end, (Bytes){other.at + from, length});
    default:
        return c->word_count ? put(input, size, at, below(state, 2) ? at : end,
                                   c->words[below(state, c->word_count)])
                             : size;
    }
}

static void say_where(int signal_number)
{
    char text[128];
    const int n = snprintf(text, sizeof text, "signal %d in round %llu: fuzz-failure\n",
                           signal_number, (unsigned long long)running_round);
    const int file = open("fuzz-failure", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (file >= 0 && write(file, running_input, running_size) < 0) _exit(1);
    if (n > 0 && write(2, text, (size_t)n) < 0) _exit(1);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static size_t make_input(const Corpus *c, uint64_t seed, uint64_t round, uint8_t *input)
{
    uint64_t state = (seed << 32 | round) * 0x9E3779B97F4A7C15u + 1;
    const Bytes start = c->files[below(&state, c->count)];
    size_t size = start.size;
    memcpy(input, start.at, size);
    for (size_t n = 1 + below(&state, 6); n > 0; n--) size = mutate(c, &state, input, size);
    return size;
}

int main(int count, char **arguments)
{
    static Corpus corpus;
    if (count == 2) {
        const Bytes b = read_whole(arguments[1]);
        return b.at ? LLVMFuzzerTestOneInput(b.at, b.size) : 2;
    }
    if (count < 5) return 2;
    const uint64_t rounds = strtoull(arguments[1], NULL, 10),
                   seed = strtoull(arguments[2], NULL, 10);
    read_words(&corpus, arguments[3]);
    for (int i = 4; i < count; i++) read_corpus(&corpus, arguments[i]);
    if (!corpus.count) return 2;
    signal(SIGSEGV, say_where);
    signal(SIGABRT, say_where);
    for (size_t i = 0; i < corpus.count; i++)
        LLVMFuzzerTestOneInput(corpus.files[i].at, corpus.files[i].size);
    for (running_round = 0; running_round < rounds; running_round++) {
        running_size = make_input(&corpus, seed, running_round, running_input);
        LLVMFuzzerTestOneInput(running_input, running_size);
    }
    printf("%llu rounds of seed %llu from %zu files\n", (unsigned long long)rounds,
           (unsigned long long)seed, corpus.count);
    return 0;
}
