/* library_test.c - every script of attn_scripts/ on one device against the oracle, in a shape of its kind and in a hard one.
 *
 *     library_test DEVICE SCRIPTS [turns|eighth|some|few|NAME]
 *     library_test DEVICE SCRIPTS cells [WORD...]      a line of JSON for each script, operand type and pass (tools/conformance); of WORDs
 *                                                      f32, f16 and bf16 are types to take, `hard` stands for the hard cases in place of the
 *                                                      first of each script, and all others are names of scripts
 *
 * turns: each case in one operand type, by turns; eighth: every eighth of those; some: every seventh; few: every twentieth; NAME: only scripts so called */
#include "exec.h"

#include <stdio.h>
#include <string.h>

// clang-format off
static const ExecCase cases[] = {
    {"mha.attn",              "B=2 H=2 S=70 T=70 D=64 E=64",          NULL, NULL},
    {"mha.attn",              "B=1 H=3 S=131 T=67 D=64 E=32",         NULL, "odd nan"},
    {"gqa.attn",              "B=2 H=6 Hk=2 S=50 T=113 D=64 E=64",    NULL, NULL},
    {"gqa.attn",              "B=1 H=4 Hk=1 S=1 T=259 D=128 E=128",   NULL, "heads_inside"},
    {"cross.attn",            "B=3 H=2 S=33 T=71 D=64 E=64",          NULL, "long"},
    {"cross.attn",            "B=2 H=1 S=65 T=1 D=32 E=64",           NULL, NULL},
    {"mla_prefill.attn",      "B=1 H=2 S=60 T=75 D=64 E=64 P=32",     NULL, NULL},
    {"mla_decode.attn",       "B=2 H=3 S=1 T=131",                    NULL, NULL},
    {"mla_decode.attn",       "B=1 H=2 S=5 T=40",                     "softmax_scale=0.05", NULL},
    {"sigmoid.attn",          "B=1 H=2 S=90 T=90 D=64 E=64",          NULL, NULL},
    {"sigmoid.attn",          "B=2 H=1 S=13 T=41 D=32 E=64",          NULL, "big"},
    {"relu.attn",             "B=2 H=2 S=66 T=97 D=64 E=64",          NULL, NULL},
    {"squared_relu.attn",     "B=2 H=1 S=70 T=70 D=128 E=64",         NULL, NULL},
    {"laplace.attn",          "B=2 H=1 S=70 T=83 D=64 E=64",          NULL, "odd"},
    {"retention.attn",        "B=1 H=3 S=90 T=90 D=64 E=128",         NULL, NULL},
    {"retention.attn",        "B=1 H=2 S=31 T=75 D=64 E=64",          NULL, "nan"},
    {"retention_true.attn",   "B=1 H=3 S=90 T=90 D=64 E=64",          NULL, NULL},
    {"power.attn",            "B=1 H=2 S=65 T=129 D=64 E=64",         NULL, NULL},
    {"alibi.attn",            "B=2 H=4 S=70 T=70 D=64 E=64",          NULL, NULL},
    {"alibi.attn",            "B=1 H=2 S=17 T=101 D=64 E=64",         NULL, "odd"},
    {"kerple.attn",           "B=1 H=4 S=70 T=90 D=64 E=64",          NULL, NULL},
    {"softcap.attn",          "B=1 H=4 Hk=2 S=70 T=90 D=64 E=64",     "cap=5.0", "big"},
    {"sliding_window.attn",   "B=1 H=4 Hk=2 S=200 T=200 D=64 E=64",   "window=40", NULL},
    {"sliding_window.attn",   "B=1 H=2 Hk=2 S=130 T=300 D=64 E=64",   "window=1", "nan"},
    {"sink_window.attn",      "B=1 H=2 Hk=1 S=210 T=210 D=64 E=64",   "sinks=4 window=33", NULL},
    {"global_window.attn",    "B=1 H=2 S=210 D=64 E=64",              "window=20 global=3", NULL},
    {"strided.attn",          "B=1 H=2 S=150 D=64 E=64",              "stride=11", NULL},
    {"chunked.attn",          "B=1 H=2 Hk=1 S=100 T=190 D=64 E=64",   "chunk=37", NULL},
    {"block_causal.attn",     "B=1 H=2 S=101 T=101 D=64 E=64",        "block=16", NULL},
    {"prefix_lm.attn",        "B=3 H=2 S=100 D=64 E=64",              NULL, "long"},
    {"documents.attn",        "B=2 H=2 S=150 D=64 E=64",              NULL, "sorted"},
    {"relative_bias.attn",    "B=1 H=2 S=70 T=90 D=64 E=64 W=33",     NULL, NULL},
    {"swin.attn",             "B=3 H=2 S=49 D=32 E=32 N=13",          NULL, "sorted"},
    {"swin.attn",             "B=2 H=2 S=16 D=32 E=64 N=7",           "side=4", NULL},
    {"t5_encoder.attn",       "B=2 H=2 S=200 D=32 E=64",              NULL, "long"},
    {"t5_decoder.attn",       "B=2 H=2 S=150 T=170 D=32 E=64",        NULL, NULL},
    {"pair_bias.attn",        "B=2 H=2 S=67 D=32 E=32",               NULL, NULL},
    {"attention_sink.attn",   "B=1 H=4 Hk=2 S=100 T=130 D=64 E=64",   NULL, NULL},
    {"attention_sink.attn",   "B=1 H=2 Hk=2 S=150 T=150 D=64 E=64",   "window=16", "big"},
    {"softmax_one.attn",      "B=1 H=2 S=70 T=90 D=64 E=64",          NULL, NULL},
    {"softmax_one.attn",      "B=1 H=2 S=90 T=20 D=64 E=64",          NULL, "big"},
    {"dropout.attn",          "B=2 H=2 S=67 T=67 D=64 E=64",          "rate=0.25 seed=7654321", NULL},
    {"differential.attn",     "B=1 H=4 Hv=2 S=70 T=70 D=64 E=128",    NULL, NULL},
    {"rope.attn",             "B=1 H=4 Hk=2 S=40 T=83 D=64 E=64",     "theta=500000.0", NULL},
    {"qk_norm.attn",          "B=1 H=4 Hk=2 S=50 T=83 D=64 E=64",     NULL, NULL},
    {"cosine.attn",           "B=2 H=2 S=64 D=32 E=32",               NULL, NULL},
    {"natten.attn",           "B=1 H=2 S=230 D=64 E=64",              "window=33", NULL},
    {"natten.attn",           "B=1 H=2 S=20 D=64 E=64",               "window=33", NULL},
    {"natten2d.attn",         "B=1 H=2 S=196 D=32 E=32",              "width=14 window=5", NULL},
    {"tree.attn",             "B=2 H=4 Hk=2 S=16 T=150 D=64 E=64",    NULL, NULL},
    {"gated.attn",            "B=1 H=4 Hk=2 S=60 T=60 D=64 E=64",     NULL, "odd"},
    {"forgetting.attn",       "B=1 H=2 S=60 T=90 D=64 E=64",          NULL, NULL},
    {"scalable_softmax.attn", "B=1 H=2 S=60 T=90 D=64 E=64",          NULL, NULL},
    {"retention_recurrent.attn", "B=1 H=3 T=65 K=64 V=48",            NULL, "forward states"},
    {"retention_recurrent.attn", "B=2 H=1 T=1 K=16 V=16",             NULL, "forward states nan"},
    {"retnet.attn",           "B=1 H=2 T=37 K=32 V=48",               NULL, "forward states odd"},
    {"retnet.attn",           "B=2 H=1 T=33 K=16 V=20",               NULL, "forward nan"},
    {"linear_attention.attn", "B=1 H=4 Hk=2 T=67 K=32 V=32",          NULL, "forward states"},
    {"linear_attention.attn", "B=2 H=1 Hk=1 T=31 K=17 V=24",          NULL, "forward odd nan"},
    {"mamba2.attn",           "B=1 H=4 G=2 T=70 N=64 P=32",           NULL, "forward states"},
    {"mamba2.attn",           "B=2 H=3 G=1 T=31 N=16 P=17",           NULL, "forward states nan odd"},
    {"simple_gla.attn",       "B=1 H=2 T=97 K=32 V=48",               NULL, "forward states"},
    {"simple_gla.attn",       "B=2 H=1 T=33 K=16 V=16",               NULL, "forward nan odd"},
    {"gla.attn",              "B=1 H=4 Hk=2 T=53 K=32 V=48",          NULL, "forward states"},
    {"gla.attn",              "B=2 H=1 Hk=1 T=31 K=16 V=20",          NULL, "forward states nan odd"},
    {"hgrn2.attn",            "B=1 H=2 T=53 K=32 V=48",               NULL, "forward states"},
    {"hgrn2.attn",            "B=2 H=1 T=17 K=20 V=16",               NULL, "forward nan odd"},
    {"lightning.attn",        "B=1 H=4 T=97 K=32 V=48",               "depth=0.25", "forward states"},
    {"lightning.attn",        "B=2 H=1 T=32 K=16 V=16",               NULL, "forward nan"},
    {"delta_rule.attn",       "B=1 H=2 T=53 K=32 V=48",               NULL, "forward states"},
    {"delta_rule.attn",       "B=2 H=1 T=17 K=20 V=16",               NULL, "forward nan odd"},
    {"gated_delta.attn",      "B=1 H=4 Hk=2 T=53 K=32 V=48",          NULL, "forward states"},
    {"gated_delta.attn",      "B=2 H=3 Hk=1 T=17 K=16 V=24",          NULL, "forward states nan odd"},
    {"kimi_delta.attn",       "B=1 H=2 T=53 K=32 V=48",               NULL, "forward states"},
    {"kimi_delta.attn",       "B=2 H=1 T=17 K=16 V=24",               NULL, "forward states nan odd"},
    {"rwkv7.attn",            "B=1 H=2 T=53 K=32 V=32",               NULL, "forward states"},
    {"rwkv7.attn",            "B=2 H=1 T=17 K=16 V=24",               NULL, "forward states nan odd"},
};
/* Of cells: strides that are not those of a contiguous tensor, NaN in padding, the same bits twice; kernels that check indices. */
static const ExecCase hard_cases[] = {
    {"mha.attn",              "B=1 H=3 S=131 T=67 D=64 E=32",         NULL, "odd nan repeat"},
    {"alibi.attn",            "B=1 H=2 S=17 T=101 D=64 E=64",         NULL, "odd nan repeat"},
    {"documents.attn",        "B=2 H=2 S=90 D=32 E=32",               NULL, "sorted odd checked"},
    {"relative_bias.attn",    "B=1 H=2 S=40 T=53 D=32 E=32 W=33",     NULL, "odd nan checked"},
    {"gla.attn",              "B=2 H=1 Hk=1 T=31 K=16 V=20",          NULL, "odd nan repeat"},
};
// clang-format on

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char *const dtypes[] = {"f32", "f16", "bf16"};

/* Every [step]-th case, of one script or of all; in all types, or another a case. */
typedef struct Which {
    unsigned step;
    bool turns;
    const char *only;
} Which;

static const char *of_case(const void *of, unsigned n, unsigned turn)
{
    const Which *w = of;
    if (turn >= 3 || (w->turns && turn != n % 3) || n % w->step != 0) return NULL;
    return w->only && !strstr(cases[n].script, w->only) ? NULL : dtypes[turn];
}

/* ---- cells */

/* The case's words without `forward`, and with it where that is all that is asked for. */
static void words_of(const ExecCase *c, bool forward, char how[64])
{
    const char *words = c->how ? c->how : "";
    const size_t length = strlen("forward ");
    if (strncmp(words, "forward ", length) == 0) words += length;
    snprintf(how, 64, "%s%s", words, forward ? " forward" : "");
}

/* The first case of each script, or a hard one, whose words are its name, too. */
typedef struct CellCase {
    const ExecCase *of;
    bool is_hard;
} CellCase;

/* Refused, where the compiler says so with a code; what else went wrong is a failure. */
static void print_cell(const ExecSuite *suite, CellCase x, const char *dtype, bool forward,
                       bool passed)
{
    const char *script = x.of->script;
    const char *name, *code = strstr(exec_trouble(suite), "error E");
    double worst = 0;
    for (uint32_t n = 0;; n++) {
        const double error = exec_error(suite, n, &name);
        if (!name) break;
        const bool counts = forward || name[0] == 'd'; /* of both passes gradients */
        if (counts && error > worst) worst = error;
    }
    printf("{\"script\": \"%.*s\", \"dtype\": \"%s\", \"pass\": \"%s\", ",
           (int)strcspn(script, "."), script, dtype, forward ? "forward" : "backward");
    if (x.is_hard) printf("\"how\": \"%s\", ", x.of->how);
    if (passed)
        printf("\"status\": \"passed\", \"error\": %.2f}\n", worst);
    else if (code)
        printf("\"status\": \"refused\", \"code\": \"%.5s\"}\n", code + strlen("error "));
    else {
        printf("\"status\": \"failed\", \"why\": \"");
        for (const char *at = exec_trouble(suite); *at; at++)
            putchar(*at < ' ' || *at == '"' || *at == '\\' ? ' ' : *at);
        printf("\"}\n");
    }
    fflush(stdout);
}

static bool is_dtype(const char *word)
{
    return strcmp(word, "f32") == 0 || strcmp(word, "f16") == 0 || strcmp(word, "bf16") == 0;
}

/* A script or a type that words ask for: those that are of its kind, of which there may be none. */
static bool is_wanted(const char *what, bool dtype, int words, char **word)
{
    bool none = true;
    for (int n = 0; n < words; n++) {
        if (is_dtype(word[n]) != dtype) continue;
        if (strncmp(what, word[n], strlen(word[n])) == 0 &&
            what[strlen(word[n])] == (dtype ? '\0' : '.'))
            return true;
        none = false;
    }
    return none;
}

static void run_cells(ExecSuite *suite, CellCase x, int words, char **word)
{
    for (unsigned run = 0; run < 6; run++) {
        const char *dtype = dtypes[run % 3];
        if (!is_wanted(dtype, true, words, word)) continue;
        const bool forward = run < 3;
        char how[64];
        words_of(x.of, forward, how);
        ExecCase c = *x.of;
        c.how = how;
        const bool passed = exec_run(suite, &c, dtype);
        print_cell(suite, x, dtype, forward, passed);
    }
}

static int cells(const char *device, const char *folder, int words, char **word)
{
    const bool is_hard = words > 0 && strcmp(word[0], "hard") == 0;
    const ExecCase *all = is_hard ? hard_cases : cases;
    const size_t count = is_hard ? COUNT(hard_cases) : COUNT(cases);
    ExecSuite *suite = exec_open(device, folder);
    if (!suite) return 77;
    exec_be_quiet(suite);
    for (size_t n = 0; n < count; n++) {
        const bool again = n && strcmp(all[n].script, all[n - 1].script) == 0;
        if ((!is_hard && again) ||
            !is_wanted(all[n].script, false, words - is_hard, word + is_hard))
            continue;
        run_cells(suite, (CellCase){&all[n], is_hard}, words - is_hard, word + is_hard);
    }
    exec_close(suite);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 3) return 2;
    if (argc > 3 && strcmp(argv[3], "cells") == 0)
        return cells(argv[1], argv[2], argc - 4, argv + 4);
    const char *what = argc > 3 ? argv[3] : "";
    Which w = {.step = strcmp(what, "eighth") == 0 ? 8
                       : strcmp(what, "some") == 0 ? 7
                       : strcmp(what, "few") == 0  ? 20
                                                   : 1};
    w.turns = w.step > 1 || strcmp(what, "turns") == 0;
    w.only = *what && !w.turns ? what : NULL;
    ExecTally tally = {0};
    if (!exec_all(&tally, argv[1], argv[2], cases, COUNT(cases), of_case, &w))
        return 77; /* meson: skipped */
    return exec_report(&tally);
}
