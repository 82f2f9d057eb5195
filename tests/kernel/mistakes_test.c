/* Planted mistakes: each is answered with its kind, by the verifier or by the interpreter, in every
 * schedule. */
#include "kernel_test.h"

typedef struct Mistake {
    AuCode code; /* of the verifier */
    const char *name, *text;
    const char *message; /* part of what must be said */
} Mistake;

#define HEAD(lanes, warps)                                                                         \
    "kernel k lanes " lanes " warps " warps "\n"                                                   \
    "memory @in: global f32 reads\nmemory @out: global f32 reads writes\nmemory @n: global i32 "   \
    "reads writes\n"                                                                               \
    "memory @s: shared f32[64]\nmemory @e: exec f32[64]\nmemory @l: lane f32[4]\n"                 \
    "memory @h: shared bf16[8]\n"                                                                  \
    "arg in: pointer @in\narg out: pointer @out\narg n: pointer @n\narg x: f32\narg i: i32\n{\n"

/* A kernel that may begin before those before it have ended. */
#define EARLIER                                                                                    \
    "kernel k lanes 4 warps 1\nmemory @t: global f32 reads writes earlier\narg t: pointer @t\n{\n"

/* Products of matrices: what stands before one in whose memories only the sums are not set. */
#define MATRICES                                                                                   \
    "kernel k lanes 4 warps 1\nmemory @c: lane f32[40]\nmemory @a: exec bf16[520]\n"               \
    "memory @b: lane i32[16]\nmemory @h: exec f32[520]\nmemory @in: global f32 reads\n"            \
    "memory @out: global f32 reads writes\nmemory @n: global i32 reads writes\n"                   \
    "arg in: pointer @in\narg out: pointer @out\narg n: pointer @n\narg x: f32\narg i: i32\n{\n"
#define FILL_A                                                                                     \
    "%1 = const.bf16 1.0\n%2 = lane.i32\nfor %3 = 0 to 520 step 4 {\n%4 = add.i32 %2, %3\n"        \
    "store @a[%4], %1\n}\n"
#define FILL_B "for %5 = 0 to 16 step 1 {\nstore @b[%5], 1\n}\n"

/* Executors of a GPU: matrices in registers, copies. */
#define WARP(warps)                                                                                \
    "kernel k lanes 32 warps " warps "\n"                                                          \
    "memory @in: global f32 reads\nmemory @out: global f32 reads writes\nmemory @n: global i32 "   \
    "reads writes\n"                                                                               \
    "memory @s: shared f32[256] align 16\nmemory @h: shared bf16[256] swizzle 32\n"                \
    "memory @l: lane f32[4]\n"                                                                     \
    "arg in: pointer @in\narg out: pointer @out\narg n: pointer @n\narg x: f32\narg i: i32\n{\n"   \
    "%1 = lane.i32\n%2 = warp.i32\n%3 = mul.i32 %1, 4\n%4 = eq.i32 %1, 0\n"
#define COPY "copy_async @s[0], @in[0], 16 if %4 #16\n"

/* clang-format off */
static const Mistake static_mistakes[] = {
    {AU_E0806, "divergent if", HEAD("4", "2") "%1 = lane.i32\n%2 = lt.i32 %1, 2\nif %2 {\n}\n}\n", "the condition must be the same in all lanes"},
    {AU_E0806, "divergent bound", HEAD("4", "2") "%1 = lane.i32\nfor %2 = 0 to %1 step 1 {\n}\n}\n", "the bounds must be the same"},
    {AU_E0806, "divergent through memory", HEAD("4", "2") "%1 = lane.i32\n%2 = cvt.f32 %1\nstore @l[0], %2\n%3 = load.f32 @l[0]\n%4 = lt.f32 %3, 1.0\nif %4 {\n}\n}\n", "the condition"},
    {AU_E0806, "divergent through a later store", HEAD("4", "2") "store @l[0], 0.0\nfor %1 = 0 to 3 step 1 {\n%2 = load.f32 @l[0]\n%3 = lt.f32 %2, 1.0\nif %3 {\n}\n"
        "%4 = lane.i32\n%5 = cvt.f32 %4\nstore @l[0], %5\n}\n}\n", "the condition"},
    {AU_E0806, "block barrier under an executor's condition", HEAD("4", "2") "%1 = warp.i32\n%2 = lt.i32 %1, 1\nif %2 {\nbarrier #0\n}\n}\n", "do not all come here"},
    {AU_E0806, "block barrier in an executor's loop", HEAD("4", "2") "%1 = warp.i32\nfor %2 = 0 to %1 step 1 {\nbarrier #0\n}\n}\n", "do not all come here"},
    {AU_E0804, "types differ", HEAD("4", "2") "%1 = add.f32 1.0, 2\n}\n", "operands must be of one type"},
    {AU_E0804, "arithmetic on bf16", HEAD("4", "2") "%1 = const.bf16 1.0\n%2 = add.bf16 %1, %1\n}\n", "operand 1 must be i32, i64 or f32"},
    {AU_E0804, "float operation on integers", HEAD("4", "2") "%1 = arg.i32 #4\n%2 = sqrt.i32 %1\n}\n", "operand 1 must be f32"},
    {AU_E0804, "wrong result type", HEAD("4", "2") "%1 = arg.i32 #4\n%2 = add.i64 %1, %1\n}\n", "the result is i32"},
    {AU_E0804, "no such conversion", HEAD("4", "2") "%1 = arg.i32 #4\n%2 = cvt.bf16 %1\n}\n", "no such change from i32 to bf16"},
    {AU_E0804, "bitcast of different sizes", HEAD("4", "2") "%1 = arg.i32 #4\n%2 = bitcast.i64 %1\n}\n", "no such change"},
    {AU_E0805, "use outside of a region", HEAD("4", "2") "if true {\n%1 = lane.i32\n}\n%2 = neg.i32 %1\n}\n", "belongs to a region that has ended"},
    {AU_E0807, "store to an input", HEAD("4", "2") "store @in[0], 1.0\n}\n", "not declared as written"},
    {AU_E0807, "wrong element type", HEAD("4", "2") "store @h[0], 1.0\n}\n", "@h holds bf16, not f32"},
    {AU_E0807, "earlier memory before the wait", EARLIER "store @t[0], 1.0\ngrid_wait\n}\n", "@t belongs to kernels before this one, for which nobody has waited"},
    {AU_E0807, "earlier memory in a loop before the wait", EARLIER "for %1 = 0 to 4 step 1 {\n%2 = load.f32 @t[%1]\n}\ngrid_wait\n}\n", "nobody has waited"},
    {AU_E0807, "earlier memory and no wait", EARLIER "store @t[0], 1.0\n}\n", "nobody has waited"},
    {AU_E0807, "earlier memory of the block", "kernel k lanes 4 warps 1\nmemory @s: shared f32[4] earlier\n{\ngrid_wait\n}\n", "of which no earlier kernel knows"},
    {AU_E0804, "a wait for what is no whole number", EARLIER "%1 = lane.i32\n%2 = cvt.f32 %1\ngrid_wait %2\n}\n", "what is there before the wait is an i32"},
    {AU_E0803, "two waits", EARLIER "grid_wait\ngrid_wait\n}\n", "stands once in a kernel"},
    {AU_E0803, "a wait of some", EARLIER "if true {\ngrid_wait\n}\n}\n", "outside of loops and conditions"},
    {AU_E0803, "grid_next in a loop", EARLIER "for %1 = 0 to 4 step 1 {\ngrid_next\n}\n}\n", "outside of loops and conditions"},
    {AU_E0804, "index of the wrong type", HEAD("4", "2") "%1 = load.f32 @s[1.0]\n}\n", "an index, i32 or i64"},
    {AU_E0808, "constant index outside", HEAD("4", "2") "%1 = load.f32x4 @l[1]\n}\n", "@l has 4 elements"},
    {AU_E0804, "mask of the wrong type", HEAD("4", "2") "store @s[0], 1.0 if 1\n}\n", "a mask, i1"},
    {AU_E0804, "other of the wrong type", HEAD("4", "2") "%1 = load.f32x2 @s[0] if true else 1.0\n}\n", "lanes without the mask must get f32x2"},
    {AU_E0804, "width that does not exist", HEAD("4", "2") "%1 = vec.f32x3 1.0, 2.0, 3.0\n}\n", "the result cannot be f32x3"},
    {AU_E0808, "element outside of its vector", HEAD("4", "2") "%1 = const.f32x2 1.0\n%2 = element.f32 %1 #2\n}\n", "#2 is not in 0..1"},
    {AU_E0808, "shuffle beyond the lanes", HEAD("4", "2") "%1 = arg.f32 #3\n%2 = shuffle_xor.f32 %1 #4\n}\n", "#4 is not in 1..3"},
    {AU_E0808, "both beyond the lanes", HEAD("4", "2") "%1 = arg.f32 #3\n%2 = both.f32x2 %1 #4\n}\n", "4 is no bit"},
    {AU_E0808, "both by no bit", HEAD("4", "2") "%1 = arg.f32 #3\n%2 = both.f32x2 %1 #3\n}\n", "3 is no bit"},
    {AU_E0804, "both of half a word", HEAD("4", "2") "%1 = arg.f32 #3\n%2 = cvt.f16 %1\n%3 = both.f16x2 %2 #1\n}\n", "by pairs, it is f16"},
    {AU_E0804, "both of flags", HEAD("4", "2") "%1 = arg.f32 #3\n%2 = eq.f32 %1, %1\n%3 = both.i1x2 %2 #1\n}\n", "by pairs, it is i1"},
    {AU_E0808, "loop that gets nowhere", HEAD("4", "2") "for %1 = 0 to 3 step 0 {\n}\n}\n", "a step that gets nowhere"},
    {AU_E0807, "pointer as a value", HEAD("4", "2") "%1 = arg.i64 #0\n}\n", "a pointer is no value"},
    {AU_E0807, "atomic of a lane", HEAD("4", "2") "atomic_add @l[0], 1.0\n}\n", "global or shared memory"},
    {AU_E0807, "prefetch of what is near", HEAD("4", "2") "prefetch @s[0]\n}\n", "what is not global memory is near"},
    {AU_E0808, "hint that nobody knows", HEAD("4", "2") "hint #3\n}\n", "#3 is not in 0..2"},
    {AU_E0807, "increment of floats", HEAD("4", "2") "%1 = atomic_inc.i32 @s[0]\n}\n", "@s holds f32, not i32"},
    {AU_E0804, "select by a number", HEAD("4", "2") "%1 = arg.i32 #4\n%2 = select.i32 %1, %1, %1\n}\n", "i1 of the same width"},
    {AU_E0804, "dot2 of floats", HEAD("4", "2") "%1 = const.f32x2 1.0\n%2 = dot2.f32 1.0, %1, %1\n}\n", "a pair of f16 or bf16"},
    {AU_E0808, "matrix of 8 rows", MATRICES "matmul @c[0], @a[0], @b[0], 8, 1, 32, 1, 32, 1, false\n}\n", "there are 16 or 32 rows"},
    {AU_E0808, "matrix 48 deep", MATRICES "matmul @c[0], @a[0], @b[0], 16, 1, 48, 1, 48, 1, false\n}\n", "in steps of 32"},
    {AU_E0808, "rows of a matrix that overlap", MATRICES "matmul @c[0], @a[0], @b[0], 16, 2, 32, 1, 32, 2, false\n}\n", "rows overlap"},
    {AU_E0808, "shape known at run time", MATRICES "%1 = arg.i32 #4\nmatmul @c[0], @a[0], @b[0], %1, 1, 32, 1, 32, 1, false\n}\n", "operand 4 must be a constant"},
    {AU_E0808, "sums outside", MATRICES "matmul @c[25], @a[0], @b[0], 16, 1, 32, 1, 32, 1, false\n}\n", "@c has 40 elements"},
    {AU_E0808, "operand A outside", MATRICES "matmul @c[0], @a[9], @b[0], 16, 1, 32, 1, 32, 1, false\n}\n", "@a has 520 elements"},
    {AU_E0808, "operand B outside", MATRICES "matmul @c[0], @a[0], @b[1], 16, 1, 32, 1, 32, 1, false\n}\n", "@b has 16 elements"},
    {AU_E0807, "operand A of floats", MATRICES "matmul @c[0], @h[0], @b[0], 16, 1, 32, 1, 32, 1, false\n}\n", "@h must be exec memory of bf16"},
    {AU_E0807, "operand B that all lanes see", MATRICES "matmul @c[0], @a[0], @a[0], 16, 1, 32, 1, 32, 1, false\n}\n", "@a must be lane memory of i32"},
    {AU_E0806, "place of a matrix by lane", MATRICES "%1 = lane.i32\nmatmul @c[%1], @a[0], @b[0], 16, 1, 32, 1, 32, 1, false\n}\n", "the place in @c must be the same"},
    {AU_E0804, "fragment of another instruction", WARP("1") "%5 = const.f32x4 0.0\n%6 = const.bf16x4 1.0\n%7 = mma.f32x4 %5, %6, %6 #m16n8k16_bf16\n}\n", "operand 2 must be bf16x8, it is bf16x4"},
    {AU_E0808, "instruction that does not exist", WARP("1") "%5 = const.f32x4 0.0\n%6 = mma.f32x4 %5, %5, %5 #99\n}\n", "#99 is not in"},
    {AU_E0808, "matrices of 4 lanes", HEAD("4", "2") "%1 = const.f32x4 0.0\n%2 = const.f32x2 0.0\n%3 = mma.f32x4 %1, %1, %2 #m16n8k8_tf32\n}\n", "needs executors of 32 lanes"},
    {AU_E0808, "three matrices", WARP("1") "%5 = load_matrix.f32x2 @s[%3] #3\n}\n", "#3 is none of"},
    {AU_E0808, "transposed floats", WARP("1") "%5 = load_matrix.f32x2 @s[%3] #10\n}\n", "#10 is none of"},
    {AU_E0804, "matrices of another type", WARP("1") "%5 = load_matrix.f32x2 @h[%3] #2\n}\n", "2 times 4 bytes of bf16"},
    {AU_E0807, "matrices of floats to memory", WARP("1") "%5 = const.f32x2 1.0\nstore_matrix @s[%3], %5 #2\n}\n", "must be shared memory of f16 or bf16"},
    {AU_E0804, "fewer matrices than are stored", WARP("1") "%5 = const.bf16x2 1.0\nstore_matrix @h[%3], %5 #2\n}\n", "the value is 2 times 4 bytes of bf16"},
    {AU_E0808, "three matrices to memory", WARP("1") "%5 = const.bf16x4 1.0\nstore_matrix @h[%3], %5 #3\n}\n", "#3 is none of"},
    {AU_E0807, "matrices from global memory", WARP("1") "%5 = load_matrix.f32x2 @in[%3] #2\n}\n", "must be shared memory"},
    {AU_E0807, "pieces of floats, turned", WARP("1") "%5 = load_matrix.f32x4 @s[%3] #20\n}\n", "must be shared memory of f16 or bf16"},
    {AU_E0807, "pieces of global memory, turned", WARP("1") "%5 = load_matrix.f32x4 @in[%3] #20\n}\n", "must be shared memory of f16 or bf16"},
    {AU_E0804, "pieces that are too short", WARP("1") "%5 = load_matrix.bf16x8 @h[%3] #20\n}\n", "the result is 4 elements of bf16"},
    {AU_E0808, "lanes too few to turn pieces", HEAD("4", "2") "%1 = lane.i32\n%2 = load_matrix.f32x4 @s[%1] #20\n}\n", "needs executors of whole 16 lanes"},
    {AU_E0808, "pieces of two", WARP("1") "%5 = load_matrix.bf16x2 @h[%3] #18\n}\n", "#18 is none of"},
    {AU_E0808, "part across two", WARP("1") "%5 = const.f32x4 0.0\n%6 = slice.f32x2 %5 #1\n}\n", "no part at #1"},
    {AU_E0804, "part that is larger", WARP("1") "%5 = const.f32x4 0.0\n%6 = slice.f32x8 %5 #0\n}\n", "a part of f32x4 cannot be f32x8"},
    {AU_E0808, "copy of 12 bytes", WARP("1") "copy_async @s[0], @in[0], 12 if %4 #12\n}\n", "#12 is none of"},
    {AU_E0808, "direct copy of 12 bytes", WARP("1") "copy_async @s[0], @in[0], 12 if %4 #44\n}\n", "#44 is none of"},
    {AU_E0806, "direct copy, each lane to a place of its own", WARP("1") "copy_async @s[%3], @in[%3], 16 if %4 #48\n}\n", "must be the same in all lanes"},
    {AU_E0807, "direct copy of a part", WARP("1") "copy_async @s[0], @in[%3], 8 if %4 #48\n}\n", "brings all of its 16 bytes"},
    {AU_E0807, "copy out of shared memory", WARP("1") "copy_async @out[0], @s[0], 16 if %4 #16\n}\n", "from global to shared"},
    {AU_E0807, "copy that changes the type", WARP("1") "copy_async @h[0], @in[0], 16 if %4 #16\n}\n", "of the same elements"},
    {AU_E0807, "copy into memory that is not aligned", HEAD("4", "2") "copy_async @s[0], @in[0], 16 #16\n}\n", "not aligned to 16"},
    {AU_E0807, "vector added to shared memory", WARP("1") "%5 = const.f32x2 1.0\natomic_add @s[0], %5\n}\n", "vectors are added to global memory"},
};

static const Mistake run_mistakes[] = {
    {0, "read before the wait", WARP("1") COPY "copy_commit\n%5 = load.f32 @s[1]\ncopy_wait #0\n}\n", "in flight: @s[1]"},
    {0, "written before the wait", WARP("1") COPY "copy_commit\nstore @s[2], 1.0 if %4\ncopy_wait #0\n}\n", "in flight: @s[2]"},
    {0, "two copies to one place", WARP("1") COPY COPY "copy_commit\ncopy_wait #0\n}\n", "in flight: @s[0]"},
    {0, "wait without a commit", WARP("1") COPY "copy_wait #0\n%5 = load.f32 @s[1] if %4\n}\n", "in flight: @s[1]"},
    {0, "wait for the group before", WARP("1") "copy_async @s[4], @in[4], 16 if %4 #16\ncopy_commit\n" COPY "copy_commit\ncopy_wait #1\n%5 = load.f32 @s[4] if %4\n%6 = load.f32 @s[0] if %4\n}\n", "in flight: @s[0]"},
    {0, "no wait", WARP("1") COPY "copy_commit\n}\n", "nobody waits"},
    {0, "another lane without a barrier", WARP("1") COPY "copy_commit\ncopy_wait #0\n%5 = load.f32 @s[1]\n}\n", "race: @s[1] was written by another lane"},
    {0, "direct copies behind lane 0's", WARP("1") "%5 = lt.i32 %1, 4\ncopy_async @s[0], @in[%3], 16 if %5 #48\ncopy_commit\n%6 = load.f32 @s[12] if %4\n}\n", "in flight: @s[12]"},
    {0, "direct copies that reach beyond the memory", WARP("1") "%5 = eq.i32 %1, 3\ncopy_async @s[248], @in[0], 16 if %5 #48\ncopy_commit\ncopy_wait #0\n}\n", "bounds: @s[260] of 256"},
    {0, "barrier before the wait", WARP("2") "%5 = eq.i32 %2, 0\n%6 = land.i1 %4, %5\ncopy_async @s[0], @in[0], 16 if %6 #16\ncopy_commit\nbarrier #0\ncopy_wait #0\n%7 = load.f32 @s[1]\n}\n", "@s[1]"},
    {0, "copy over what others read", WARP("1") "store @s[%1], 1.0\nbarrier #0\n%5 = load.f32 @s[0]\n" COPY "copy_commit\ncopy_wait #0\n}\n", "race: @s[0] was read"},
    {0, "copy from outside", WARP("1") "copy_async @s[0], @in[16], 4 if %4 #16\ncopy_commit\ncopy_wait #0\n}\n", "bounds: @in[16] of 16"},
    {0, "copy to the middle", WARP("1") "copy_async @s[2], @in[0], 16 if %4 #16\ncopy_commit\ncopy_wait #0\n}\n", "not aligned to the 16 bytes"},
    {0, "more bytes than there are", WARP("1") "copy_async @s[0], @in[0], 20 if %4 #16\ncopy_commit\ncopy_wait #0\n}\n", "bounds: 20 bytes of 16"},
    {0, "matrix that is not set", WARP("1") "%5 = load_matrix.f32 @s[%3] #1\n}\n", "uninitialised: @s[0]"},
    {0, "matrix that other lanes still write", WARP("1") "store @s[%1], 1.0\n%5 = load_matrix.f32 @s[0] #1\n}\n", "race: @s["},
    {0, "rows of matrices that are stored to one place", WARP("1") "%5 = const.bf16x2 1.0\nstore_matrix @h[0], %5 #1\n}\n", "race: @h[0]"},
    {0, "row of a matrix outside", WARP("1") "%5 = const.bf16x2 1.0\n%6 = mul.i32 %1, 4096\nstore_matrix @h[%6], %5 #1\n}\n", "bounds: a row at @h[4096]"},
    {0, "row that is not aligned", WARP("1") "store @s[%1], 1.0\nbarrier #0\n%5 = load_matrix.f32 @s[%1] #1\n}\n", "bounds: a row at @s[1]"},
    {0, "piece that is not set", WARP("1") "%5 = load_matrix.bf16x4 @h[%3] #20\n}\n", "uninitialised: @h[0]"},
    {0, "piece that is not aligned", WARP("1") "%5 = const.bf16x8 1.0\n%6 = mul.i32 %1, 8\nstore @h[%6], %5\nbarrier #1\n%7 = load_matrix.bf16x4 @h[%1] #20\n}\n", "bounds: a row at @h[1]"},
    {0, "piece that another lane still writes", WARP("1") "%5 = const.bf16x4 1.0\nstore @h[%3], %5\n%6 = load_matrix.bf16x4 @h[%3] #20\n}\n", "race: @h["},
    {0, "vector across a swizzle", WARP("1") "%5 = const.bf16x8 1.0\nstore @h[4], %5 if %4\n}\n", "lies across 8"},
    {0, "vector added across", WARP("1") "%5 = const.f32x2 1.0\natomic_add @out[1], %5 if %4\n}\n", "lies across 2"},

    {0, "sums added to nothing", MATRICES FILL_A FILL_B "barrier #1\nmatmul @c[0], @a[0], @b[0], 16, 1, 32, 1, 32, 1, true\n}\n", "uninitialised: @c[0]"},
    {0, "operand A not set", MATRICES FILL_B "matmul @c[0], @a[0], @b[0], 16, 1, 32, 1, 32, 1, false\n}\n", "uninitialised: @a[0]"},
    {0, "operand A that other lanes still write", MATRICES FILL_A FILL_B "matmul @c[0], @a[0], @b[0], 16, 1, 32, 1, 32, 1, false\n}\n", "race: @a[1]"},
    {0, "operand B not set", MATRICES FILL_A "barrier #1\nmatmul @c[0], @a[0], @b[0], 16, 1, 32, 1, 32, 1, false\n}\n", "uninitialised: @b[0]"},
    {0, "bounds of a matrix", MATRICES FILL_A FILL_B "barrier #1\n%6 = arg.i32 #4\n%7 = add.i32 %6, 12\nmatmul @c[%7], @a[0], @b[0], 16, 1, 32, 1, 32, 1, false\n}\n", "bounds: @c[40] of 40"},
    {0, "race of lanes", HEAD("4", "1") "%1 = lane.i32\nstore @s[%1], 1.0\n%2 = xor.i32 %1, 1\n%3 = load.f32 @s[%2]\n}\n", "race: @s[1] was written by another lane"},
    {0, "race of executors", HEAD("1", "2") "%1 = warp.i32\nstore @s[%1], 1.0\nstore @s[2], 1.0\n}\n", "race: @s[2] was written by another executor"},
    {0, "write after read", HEAD("1", "2") "%1 = warp.i32\nstore @s[%1], 1.0\nbarrier #0\n%2 = load.f32 @s[0]\nstore @s[%1], 2.0\n}\n", "race: @s[0] was"},
    {0, "barrier of lanes between executors", HEAD("1", "2") "%1 = warp.i32\nstore @s[%1], 1.0\nbarrier #1\n%2 = load.f32 @s[0]\n%3 = load.f32 @s[1]\n}\n", "@s["},
    {0, "barrier missing in a loop", HEAD("1", "2") "%1 = warp.i32\nfor %2 = 0 to 2 step 1 {\nstore @s[%1], 1.0\nbarrier #0\n%3 = sub.i32 1, %1\n%4 = load.f32 @s[%3]\n}\n}\n", "race: @s["},
    {0, "race of blocks", HEAD("1", "1") "store @out[0], 1.0\n}\n", "race: @out[0] was written by another block"},
    {0, "read of another block's output", HEAD("1", "1") "%1 = block.i32 #0\nstore @out[%1], 1.0\n%2 = load.f32 @out[0]\n}\n", "@out[0]"},
    {0, "atomic and plain", HEAD("4", "1") "%1 = lane.i32\n%2 = eq.i32 %1, 0\natomic_add @out[0], 1.0\nstore @out[0], 1.0 if %2\n}\n", "@out[0]"},
    {0, "two lanes store in one instruction", HEAD("4", "1") "store @e[0], 1.0\n}\n", "race: @e[0]"},
    {0, "uninitialised shared", HEAD("1", "1") "%1 = load.f32 @s[3]\n}\n", "uninitialised: @s[3]"},
    {0, "uninitialised lane", HEAD("4", "1") "%1 = lane.i32\n%2 = lt.i32 %1, 3\nstore @l[1], 1.0 if %2\n%3 = load.f32 @l[1]\n}\n", "uninitialised: @l[1]"},
    {0, "left over from the last block", HEAD("1", "1") "%1 = block.i32 #0\n%2 = eq.i32 %1, 0\nif %2 {\nstore @s[0], 1.0\n}\n%3 = ne.i32 %1, 0\nif %3 {\n%4 = load.f32 @s[0]\n}\n}\n", "uninitialised: @s[0]"},
    {0, "uninitialised output", HEAD("1", "1") "%1 = load.f32 @out[0]\n}\n", "uninitialised: @out[0]"},
    {0, "bounds of a tensor", HEAD("4", "1") "%1 = lane.i32\n%2 = add.i32 %1, 13\n%3 = load.f32 @in[%2]\n}\n", "bounds: @in[16] of 16 elements"},
    {0, "negative index", HEAD("4", "1") "%1 = lane.i32\n%2 = sub.i32 %1, 1\n%3 = load.f32 @in[%2]\n}\n", "bounds: @in[-1]"},
    {0, "bounds of a vector", HEAD("4", "1") "%1 = arg.i32 #4\n%2 = load.f32x4 @in[%1]\n}\n", "bounds: @in[13]"},
    {0, "bounds of lane memory", HEAD("4", "1") "%1 = arg.i32 #4\nstore @l[%1], 1.0\n}\n", "bounds: @l[13] of 4"},
    {0, "divergence behind an atomic", HEAD("1", "1") "%1 = atomic_inc.i32 @n[99]\n}\n", "bounds: @n[99]"},
    {0, "output not completely written", HEAD("1", "1") "%1 = block.i32 #0\nstore @out[%1], 1.0\n}\n", "unwritten: @out["},
    {0, "increment without the barrier before", HEAD("4", "2")
        "%1 = block.i32 #0\n%2 = warp.i32\n%3 = lane.i32\n%4 = mul.i32 %2, 4\n%5 = add.i32 %4, %3\n%6 = mul.i32 %1, 8\n%7 = add.i32 %6, %5\nstore @out[%7], 1.0\n"
        "%8 = eq.i32 %5, 0\n%9 = atomic_inc.i32 @n[0] if %8\n%10 = shuffle.i32 %9, 0\n%11 = eq.i32 %10, 1\nif %11 {\n%12 = load.f32 @out[0]\n%13 = load.f32 @out[8]\n}\n}\n", "@out["},
};
/* clang-format on */

static void verifier_finds(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof static_mistakes / sizeof *static_mistakes; n++) {
        const Mistake *m = &static_mistakes[n];
        Bench b = bench_new();
        AuKernel *k = bench_read(&b, m->text);
        AuText shown = {.arena = b.arena};
        au_diags_render(b.diags, &shown);
        if (!k) fail_msg("%s: %s", m->name, au_text_str(&shown));
        assert_false(kernel_verify(k, b.diags));
        assert_int_equal(b.diags->first->code, m->code);
        if (!strstr(b.diags->first->message, m->message))
            fail_msg("%s: %s", m->name, b.diags->first->message);
        bench_free(&b);
    }
}

static void interpreter_finds(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof run_mistakes / sizeof *run_mistakes; n++) {
        const Mistake *m = &run_mistakes[n];
        for (uint64_t seed = 0; seed < 20; seed++) {
            Bench b = bench_new();
            const AuKernel *k = bench_kernel(&b, m->text);
            float in[16] = {0}, out[16];
            int32_t counters[4] = {0};
            const uint64_t slots[5] = {0, 0, 0, 0, 13};
            AuKBuffer buffers[5] = {{in, 16, true}, {out, 16, false}, {counters, 4, true}};
            const AuKRun run = {.slots = slots,
                                .buffers = buffers,
                                .grid = {2, 1, 1},
                                .seed = seed,
                                .check_all_written = true};
            const char *why = NULL;
            assert_false(kernel_run(k, &run, b.arena, &why));
            if (!strstr(why, m->message)) fail_msg("%s, seed %d: %s", m->name, (int)seed, why);
            bench_free(&b);
        }
    }
}

/* What is right is not complained about: the same patterns, with what orders them. */
static void interpreter_accepts(void **state)
{
    (void)state;
    /* clang-format off */
    static const Mistake good[] = {
        {0, "lanes ordered by a barrier", HEAD("4", "1") "%1 = lane.i32\nstore @s[%1], 1.0\nbarrier #1\n%2 = xor.i32 %1, 1\n%3 = load.f32 @s[%2]\n}\n", NULL},
        {0, "executors ordered by a barrier", HEAD("2", "2")
            "%1 = warp.i32\n%2 = lane.i32\n%3 = mul.i32 %1, 2\n%4 = add.i32 %3, %2\nfor %5 = 0 to 3 step 1 {\nstore @s[%4], 1.0\nbarrier #0\n%6 = xor.i32 %4, 3\n%7 = load.f32 @s[%6]\nbarrier #0\n}\n}\n", NULL},
        {0, "atomics of all", HEAD("4", "2") "%1 = atomic_inc.i32 @n[0]\natomic_add @s[0], 1.0 if false\n}\n", NULL},
        {0, "the last block reads what all wrote", HEAD("4", "2")
            "%1 = block.i32 #0\n%2 = warp.i32\n%3 = lane.i32\n%4 = mul.i32 %2, 4\n%5 = add.i32 %4, %3\n%6 = mul.i32 %1, 8\n%7 = add.i32 %6, %5\nstore @out[%7], 1.0\nbarrier #0\n"
            "%8 = eq.i32 %5, 0\n%9 = atomic_inc.i32 @n[0] if %8\n%10 = shuffle.i32 %9, 0\n%11 = eq.i32 %10, 1\nif %11 {\n%12 = load.f32 @out[0]\n%13 = load.f32 @out[8]\nstore @n[0], 0 if %8\n}\n}\n", NULL},
        {0, "copies in their order", WARP("2") "store @s[%1], 1.0 if false\n%5 = eq.i32 %2, 0\n%6 = land.i1 %4, %5\ncopy_async @s[0], @in[12], 16 if %6 #16\ncopy_commit\n"
            "copy_async @s[4], @in[16], 0 if %6 #16\ncopy_commit\ncopy_wait #1\nbarrier #0\n%7 = load.f32 @s[3]\ncopy_wait #0\nbarrier #0\n%8 = load.f32x4 @s[4]\n}\n", NULL},
        {0, "direct copies, side by side", WARP("1") "%5 = lt.i32 %1, 4\ncopy_async @s[16], @in[%3], 16 if %5 #48\ncopy_commit\ncopy_wait #0\nbarrier #0\n"
            "%6 = add.i32 %3, 16\n%7 = load.f32x4 @s[%6] if %5\n}\n", NULL},
        {0, "vectors added by all", WARP("1") "%5 = const.f32x4 1.0\nif false {\natomic_add @out[4], %5\n}\n}\n", NULL},
        {0, "masked lanes stay inside", HEAD("4", "1") "%1 = lane.i32\n%2 = add.i32 %1, 13\n%3 = lt.i32 %2, 16\n%4 = load.f32 @in[%2] if %3\n}\n", NULL},
    };
    /* clang-format on */
    for (size_t n = 0; n < sizeof good / sizeof *good; n++)
        for (uint64_t seed = 0; seed < 20; seed++) {
            Bench b = bench_new();
            const AuKernel *k = bench_kernel(&b, good[n].text);
            float in[16] = {0}, out[16];
            int32_t counters[4] = {0};
            const uint64_t slots[5] = {0, 0, 0, 0, 13};
            AuKBuffer buffers[5] = {{in, 16, true}, {out, 16, false}, {counters, 4, true}};
            const AuKRun run = {
                .slots = slots, .buffers = buffers, .grid = {2, 1, 1}, .seed = seed};
            const char *why = NULL;
            if (!kernel_run(k, &run, b.arena, &why)) fail_msg("%s: %s", good[n].name, why);
            bench_free(&b);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verifier_finds),
        cmocka_unit_test(interpreter_finds),
        cmocka_unit_test(interpreter_accepts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
