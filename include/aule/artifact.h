/* aule/artifact.h - the layout of what aulec writes. C99; data only: another project can walk an
 * artifact without libaule.
 *
 * An artifact `x.so` exports one symbol, `aule_module_v1`, a constant aule_module_v1. Everything is
 * reached from it by pointers; nothing in it is code but the host functions of `cpu` kernels.
 * Outputs of a call must not overlap each other or any input: kernels are compiled on that.
 *
 * Versions: a reader accepts an artifact if magic matches, version.major is its own and struct_size
 * of each structure is at least what it was built with; later minor versions only append fields to
 * structures (arrays step by struct_size of their first element). */
#ifndef AULE_ARTIFACT_H
#define AULE_ARTIFACT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define AULE_MAGIC         "aule\x1a\r\n" /* 7 characters and the NUL: 8 bytes */
#define AULE_VERSION_MAJOR 1
#define AULE_VERSION_MINOR 24

/* What an artifact has at most: aulec refuses a script that needs more, a reader an artifact that has more. They bound
 * what a run keeps on its stack. */
enum {
    AULE_MAX_RANK = 8,      /* of a tensor */
    AULE_MAX_TENSORS = 128, /* of an attention, the gradients among them */
    AULE_MAX_GRADS = 40,    /* inputs marked `grad` */
    AULE_MAX_PARAMS = 64,
    AULE_MAX_SIZES = 64,
    AULE_MAX_SLOTS = 512,   /* of a launch */
    AULE_MAX_LAUNCHES = 64, /* of a variant: one for each of those gradients, and 24 */
    AULE_MAX_REGIONS = 64,  /* of a variant's workspace: likewise */
    AULE_MAX_MAPS = 32,     /* of a variant's launches together */
    AULE_MAP_RANK = 5,      /* dimensions of a map, at most */
    /* Kernels count in 32 bits, in steps of a tile, and the end of the last one must fit: no tile is as long as 2^16. */
    AULE_LARGEST_SIZE = INT32_MAX - (1 << 16)
};

/* Element types. OPERAND: the operand type of the variant that is chosen. */
// clang-format off
typedef enum aule_dtype {
    AULE_OPERAND = 0, AULE_F32 = 1, AULE_F16 = 2, AULE_BF16 = 3, AULE_I32 = 4, AULE_I64 = 5, AULE_U8 = 6, AULE_BOOL = 7,
    AULE_E4M3 = 8, AULE_E5M2 = 9, AULE_I8 = 10 /* of k and v alone (since 1.12) */
} aule_dtype;
// clang-format on

/* A launch expression: postfix code, evaluated with 64-bit integers and doubles by aule_evaluate
 * (libaule) or by the reader. Each word is op + (operand << 8). CONST_* take their 64-bit constant
 * from the next two words, low word first. Integers and floats are separate types;
 * `/` and `%` of integers round down; a quotient by zero makes the whole expression an error. */
// clang-format off
typedef enum aule_eop {
    AULE_E_CONST_INT = 1, AULE_E_CONST_FLOAT = 2,
    AULE_E_SIZE = 3,  /* operand: index into sizes; an integer */
    AULE_E_PARAM = 4, /* operand: index into params; integer or float by its dtype */
    AULE_E_PROCESSORS = 5, /* multiprocessors of the device; 2^31 - 1 to aule_evaluate, which knows no device: what has it in its grid
                              is right with any number of blocks, and fastest with as many as this says */
    AULE_E_ADD = 16, AULE_E_SUB, AULE_E_MUL, AULE_E_DIV, AULE_E_MOD, AULE_E_NEG, AULE_E_MIN, AULE_E_MAX, AULE_E_ABS,
    AULE_E_LT, AULE_E_LE, AULE_E_EQ, AULE_E_NE, AULE_E_AND, AULE_E_OR, AULE_E_NOT, AULE_E_SELECT, /* c a b -> c ? a : b */
    AULE_E_TO_FLOAT, AULE_E_TO_INT,                                                               /* toward zero */
    AULE_E_FLOOR, AULE_E_CEIL, AULE_E_SQRT, AULE_E_RSQRT, AULE_E_EXP, AULE_E_EXP2, AULE_E_LOG, AULE_E_LOG2, AULE_E_POW,
    AULE_E_TANH, AULE_E_SIN, AULE_E_COS
} aule_eop;
// clang-format on
typedef struct aule_expr {
    const uint32_t *code; /* NULL: no expression */
    uint32_t length;      /* words */
} aule_expr;

/* A size: a named extent that the shapes bind at launch. */
/* A size that optional tensors alone have is -1 where none of them is passed. */
typedef struct aule_size_v1 {
    const char *name; /* as in the script; "" for an axis written as a number */
} aule_size_v1;

typedef enum aule_role {
    AULE_ROLE_Q,
    AULE_ROLE_K,
    AULE_ROLE_V,
    AULE_ROLE_INPUT,
    AULE_ROLE_OUTPUT,
    AULE_ROLE_FINAL,
    /* of attentions with gradients */
    AULE_ROLE_KEPT,     /* "o_kept": the output before out_mod, which forward writes for backward */
    AULE_ROLE_DOUT,     /* "do": the gradient given for o */
    AULE_ROLE_DFINAL,   /* "dNAME": the gradient given for a final */
    AULE_ROLE_GRAD,     /* "dq", "dk", "dv", "dNAME": what backward makes */
    AULE_ROLE_KEPT_ROW, /* "NAME_kept", f32 a row: what forward writes beside finals, for backward */
    /* of recurrences */
    AULE_ROLE_STATE,     /* "state_in", "sum_in": before the first token; not passed: 0 */
    AULE_ROLE_STATE_OUT, /* "state_out", "sum_out": after the last */
    AULE_ROLE_SEQUENCES, /* "cu_seqlens", i32: where each of the packed sequences of one batch begins, and the
                          * end of the last (since 1.6); states are then one a sequence; not passed: not packed */
    /* of the operation "step" of recurrences (since 1.6) */
    AULE_ROLE_POOL, /* "state", "sum": states that it reads and writes in place */
    AULE_ROLE_SLOTS, /* "slots", i32 [B]: which of them is a sequence's; outside of the pool: none, 0 is read and nothing
                     * written; not passed: sequence b has state b */
    /* of gradients of recurrences (since 1.7) */
    AULE_ROLE_DSTATE_OUT, /* "dstate_out", "dsum_out": those given for the states after the last token; not passed: 0 */
    AULE_ROLE_DSTATE, /* "dstate_in", "dsum_in": those that backward makes of the states before the first */
    /* of the operations "unfinished" and "combine" (since 1.9), f32: what an attention of some of the keys leaves to be joined */
    AULE_ROLE_PART_OUT, /* "acc" [B, H, S, E]: the sum of the values before the epilogue; "state_NAME" [B, H, S]: a row scale; "seen"
                         * [B, H, S]: above 0 where the row has a pair */
    AULE_ROLE_PART, /* "acc_parts" [N, B, H, S, E], "state_NAME_parts" [N, B, H, S], "seen_parts": those of N sets of keys */
    /* of the operation "append" (since 1.13) */
    AULE_ROLE_NEW,       /* "k_new" [M, Hk, N, D], "v_new": rows that it writes into k and v */
    AULE_ROLE_NEW_SLOTS, /* "slots", i64 [M, N]: where each goes; row j of k[p] is slot p * rows + j; no such slot, as -1: nowhere; not passed:
                         * to the last rows of each sequence */
    /* of the operation "schedule" (since 1.19) */
    AULE_ROLE_WORK /* "work", i32 [n]: regions that launches marked AULE_LAUNCH_WORK write, one behind the other, each at a multiple of 64
                    * bytes, as is its address; n, which no other tensor gives, is the most that a variant has for such a call */
} aule_role;
enum { AULE_ROLES = AULE_ROLE_WORK + 1 }; /* as many as this version of the header knows */

/* A tensor of the signature. Axes are outermost first; each extent is an expression (often one
 * AULE_E_SIZE, which then binds the size). Every tensor comes with strides, in elements; any stride
 * is legal for reading, outputs must not overlap themselves. */
typedef struct aule_tensor_v1 {
    uint32_t struct_size;
    const char *name; /* "q", "k", "v", inputs as in the script, "o", finals as in the script */
    uint32_t role;    /* aule_role */
    uint32_t dtype;   /* aule_dtype */
    uint32_t rank;    /* at most 8 */
    uint32_t flags;   /* AULE_TENSOR_* */
    const aule_expr *axes;
} aule_tensor_v1;
#define AULE_TENSOR_GRAD     1u /* marked `grad`: backward makes dNAME */
#define AULE_TENSOR_OPTIONAL 2u /* what need not be passed: finals, what is kept, states */
#define AULE_TENSOR_IN_K     4u /* v is part of k: it is not passed */
#define AULE_TENSOR_JOINED   8u /* an input that combine reads, too (since 1.9) */
/* Of keys in a layout (since 1.10); k and v have the axes of that layout. */
#define AULE_TENSOR_LENGTHS 16u /* i32 [B]: how many keys each sequence has */
#define AULE_TENSOR_TABLE                                                                          \
    32u /* i32 [B, entries]: on which page of k and v [pages, Hk, slots, D] they lie */
/* i32 [B + 1]: packed rows (since 1.11). Rows starts[b] .. starts[b + 1] of q, o and finals, of k and v, or of all of
 * them, whose batch is 1, are those of sequence b. */
#define AULE_TENSOR_STARTS_Q 64u
#define AULE_TENSOR_STARTS_K 128u
/* Of starts "X_starts" (since 1.13): no sequence has more rows than the size "X_most" says, which axes of inputs have. */
#define AULE_TENSOR_MOST 512u
#define AULE_TENSOR_ROWS                                                                           \
    1024u /* i32 [B]: which row of the table, or of k and v, each sequence has (since 1.13) */
/* i32 [B + 1], since 1.13: the table is i32 [entries], of which starts[b] .. starts[b + 1] are those of sequence b. */
#define AULE_TENSOR_TABLE_STARTS 2048u
/* i32 [B], since 1.13: row j of k and v is position first[b] + X_every * j of a sequence of whole[b], X_every a parameter. */
#define AULE_TENSOR_FIRST 16384u
#define AULE_TENSOR_WHOLE 32768u
/* i32 [n + 1], i32 [n], of keys in pages (since 1.15): sequences groups[g] .. groups[g + 1] have the same first shared[g] keys. */
#define AULE_TENSOR_GROUPS 131072u
#define AULE_TENSOR_SHARED 262144u
/* As AULE_TENSOR_FIRST and _WHOLE, of rows of q, o and finals (since 1.21). */
#define AULE_TENSOR_FIRST_Q 524288u
#define AULE_TENSOR_WHOLE_Q 1048576u
/* i32 [B]: which row of q, o and finals each sequence has, no two the same one (since 1.22). */
#define AULE_TENSOR_ROWS_Q    2097152u
#define AULE_TENSOR_LENGTHS_Q 65536u /* i32 [B]: how many queries each sequence has (since 1.13) */
/* Of scales (since 1.12): f32 k_scale and v_scale [B, Hk, 1, 1], or [B, Hk, T, 1] as tokens lie. The element of k or v is scale * stored.
 * An axis may also have one element, which then is that of all; its stride is 0 for kernels. */
#define AULE_TENSOR_SPREADS 256u
/* Inputs that append takes, too (since 1.13); and of these, what it writes: the scales of tokens, which then spread along no axis. */
#define AULE_TENSOR_CACHED   4096u
#define AULE_TENSOR_APPENDED 8192u
/* Of k (since 1.24): rows of k and v lie as k_mod and v_mod make them. */
#define AULE_TENSOR_MODIFIED 4194304u
#define AULE_TENSOR_LISTS                                                                          \
    (AULE_TENSOR_LENGTHS | AULE_TENSOR_TABLE | AULE_TENSOR_ROWS | AULE_TENSOR_STARTS_Q |           \
     AULE_TENSOR_STARTS_K)
/* Inputs that no script declares: what a layout or a storage brings. */
#define AULE_TENSOR_BROUGHT                                                                        \
    (AULE_TENSOR_LISTS | AULE_TENSOR_TABLE_STARTS | AULE_TENSOR_FIRST | AULE_TENSOR_WHOLE |        \
     AULE_TENSOR_FIRST_Q | AULE_TENSOR_WHOLE_Q | AULE_TENSOR_ROWS_Q | AULE_TENSOR_LENGTHS_Q |      \
     AULE_TENSOR_GROUPS | AULE_TENSOR_SHARED | AULE_TENSOR_SPREADS)
/* Of these, what says of sequences where they are. */
#define AULE_TENSOR_SEQUENCES (AULE_TENSOR_BROUGHT & ~AULE_TENSOR_SPREADS)

typedef struct aule_param_v1 {
    uint32_t struct_size;
    const char *name;
    uint32_t dtype;
    aule_expr default_value; /* none: must be passed */
} aule_param_v1;

/* A condition on sizes and params, checked at launch. */
typedef struct aule_require_v1 {
    aule_expr condition;
    const char *text; /* for the message: the condition as written, with file and line */
} aule_require_v1;

/* What fills a 64-bit slot of a kernel's parameter block. Pointers are addresses of element 0 (on
 * targets without addresses, OpenCL C: a buffer object argument followed by an argument `long` with
 * the offset of element 0 in elements). Strides in elements, signed 64 bits. 32-bit values are in
 * the low half. */
typedef enum aule_slot_kind {
    AULE_SLOT_TENSOR =
        1, /* index: tensor; its address (0 for an optional tensor that was not passed) */
    AULE_SLOT_STRIDE = 2, /* index: tensor, dim: axis */
    AULE_SLOT_SIZE = 3,   /* index: size; i32 or i64 by `type` */
    AULE_SLOT_PARAM = 4,  /* index: param; by its dtype: f32, i32 (bool too), i64 */
    AULE_SLOT_WORKSPACE =
        5, /* index: region of the workspace; its address; dim: bytes of an element there, in which
            * a target without addresses takes the offset of the region */
    AULE_SLOT_PRESENT = 6 /* index: tensor; 1 if it was passed, else 0; i32 */
} aule_slot_kind;
typedef enum aule_slot_type {
    AULE_SLOT_PTR,
    AULE_SLOT_I32,
    AULE_SLOT_I64,
    AULE_SLOT_F32
} aule_slot_type;
typedef struct aule_slot_v1 {
    uint16_t kind, type;
    uint32_t index, dim;
} aule_slot_v1;

/* A host kernel: one block of the grid. [slots] is the parameter block. Blocks are independent and
 * may run in parallel. It needs the launch's private_bytes of stack. */
typedef void (*aule_cpu_kernel)(const uint64_t *slots, uint32_t x, uint32_t y, uint32_t z);

/* How the unit of a device that copies boxes sees a tensor (since 1.4; NVIDIA's tensor maps). The launch encodes one for each and
 * passes them as one parameter behind the slots, 128 bytes each, aligned to 64. Dimension 0 is contiguous and the tensor's last axis;
 * without expressions strides are those with which the tensor comes, or of a region those of a contiguous array.
 *
 * A call can be described where the base is a multiple of 16 bytes, dimension 0 has stride 1, the strides of the others are positive
 * multiples of 16 bytes below 2^40, no size is 0 or above 2^32, and, of what is written, rows are multiples of 16 bytes (the unit writes
 * such pieces whole). A dimension of size 1 has any stride. For other calls a variant with maps must not be chosen; an artifact has a
 * twin without maps behind it. Such variants have the word "tensor_maps" among their features, so that readers which know no maps
 * leave them alone. */
typedef struct aule_map_v1 {
    uint32_t struct_size;
    uint32_t kind;  /* AULE_SLOT_TENSOR or AULE_SLOT_WORKSPACE */
    uint32_t index; /* of the tensor or region */
    uint32_t dtype; /* of its elements; never AULE_OPERAND */
    uint32_t rank;
    uint32_t swizzle; /* bytes of a row of the box in shared memory: 32, 64, 128; 0: as they lie */
    uint32_t flags;   /* AULE_MAP_* */
    uint32_t box[AULE_MAP_RANK];
    aule_expr size[AULE_MAP_RANK];   /* in elements */
    aule_expr stride[AULE_MAP_RANK]; /* likewise; no code: see above */
} aule_map_v1;
#define AULE_MAP_NAN     1u /* what is outside of the tensor is NaN in shared memory, not 0 */
#define AULE_MAP_WRITTEN 2u /* boxes are stored or added through it */
/* Since 1.18: a dimension of which each copy says where it ends; 0: none. What the launch encodes has one more dimension, the last: as many and
 * one more, with the same stride, and a base so many strides before the tensor's. So coordinates c, in the dimension of size R, and e mean
 * row c + e - R, and rows with c >= R are outside: a box that begins at row r and ends at row e has c = R - e + r. Variants with such maps have the
 * word "cut_maps" among their features. */
#define AULE_MAP_CUT(flags) ((flags) >> 8 & 15u)
#define AULE_MAP_CUT_SHIFT  8

typedef struct aule_launch_v1 {
    uint32_t struct_size;
    const char *entry;      /* name of the kernel in the variant's code */
    aule_cpu_kernel host;   /* target cpu, else NULL */
    aule_expr grid[3];      /* blocks in x, y, z; x runs fastest */
    uint32_t block[3];      /* threads of a block */
    uint32_t shared_bytes;  /* dynamic shared memory, beyond what the code declares */
    uint32_t private_bytes; /* stack of a host kernel */
    uint32_t slot_count;
    const aule_slot_v1 *slots;
    uint32_t map_count; /* since 1.4 */
    const aule_map_v1 *maps;
    uint32_t flags;       /* AULE_LAUNCH_*, since 1.16 */
    uint32_t touch_count; /* words of `touches`, since 1.17; 0: what the kernel does is not known */
    /* What it does with the memory that a slot is the address of: slot n has bits 2 (n % 16) and the next of word n / 16, AULE_TOUCH_*. 0 for
     * slots that are no addresses, and for addresses that are looked at as numbers alone. */
    const uint32_t *touches;
} aule_launch_v1;
#define AULE_TOUCH_READ  1u
#define AULE_TOUCH_WRITE 2u
/* May be launched before the launch before it, of the same run, has ended: it waits by itself. One that is launched as others are is as right. */
#define AULE_LAUNCH_EARLY 1u
/* Makes lists of work (since 1.19): it reads inputs and shapes, and writes regions that launches without this mark only read. So "schedule" is
 * these launches alone, with WORK in place of the regions, and a forward that is given WORK leaves them out. `touches` says which regions. */
#define AULE_LAUNCH_WORK 2u
/* Of forward (since 1.24): waits by itself for the launches of append that a call with new rows has before its own, and so may be the first of its own
 * launches and begin while those run. */
#define AULE_LAUNCH_BEHIND_APPEND 4u

typedef struct aule_workspace_v1 {
    aule_expr bytes;
    uint32_t align;
    uint32_t zeroed; /* 1: must be zero before the first launch */
} aule_workspace_v1;

typedef struct aule_fixed_v1 {
    uint32_t size; /* index into sizes */
    int64_t value; /* what the variant was compiled for */
} aule_fixed_v1;

/* With --checked (since 1.1): an index of a read in the script, which the first launches look at. The
 * region holds i32[b, h, slices, row], b, h and row being the first three axes of the tensor [rows]; after
 * the launches, element [.., slice, ..] is 0, or, for some pair of that row, the index that lies outside
 * of axis [axis] of [tensor]: itself if it is negative, else plus 1. Of rows that are packed b has one element and row counts all of
 * them; of others in a layout there are as many b as sequences, and as many rows as one has room for (since 1.20). Since 1.8 [slices] 0:
 * no kernel looks; the values of [tensor], a list of role SEQUENCES or SLOTS, since 1.20 also one of AULE_TENSOR_SEQUENCES and since
 * 1.23 of role NEW_SLOTS, are looked at after the run. */
typedef struct aule_check_v1 {
    const char *text; /* where the script says so: "docs.attn:12:31" */
    uint32_t tensor, axis;
    uint32_t region; /* index into workspaces */
    uint32_t rows;
    uint32_t slice, slices;
} aule_check_v1;

/* One way to run one operation of an attention: on one target and architecture, for one operand
 * type and fixed sizes. Among the variants that fit a device and a call, the first is the best. A reader
 * that does not know conditions (1.1) is right with any of them, if not fast. */
typedef struct aule_variant_v1 {
    uint32_t struct_size;
    const char *operation; /* "forward" or "backward" */
    const char *target;    /* "cpu", "opencl", ... */
    const char *arch;      /* "x86-64-v4", "aarch64", "generic", ... */
    const char *features;  /* space-separated CPU or device features it needs: "avx512f avx512bw
                              avx512dq avx512vl avx512bf16"; "" none */
    uint32_t dtype;        /* aule_dtype of operands: F32, F16, BF16 */
    uint32_t fixed_count;
    const aule_fixed_v1 *fixed;
    const char *schedule; /* its name and shape: "warps_forward: warps=4 rows=32 .." */
    uint32_t code_format; /* aule_code_format */
    uint64_t code_bytes;
    const void *code; /* NULL for host functions */
    uint32_t workspace_count;
    const aule_workspace_v1 *workspaces;
    uint32_t launch_count;
    const aule_launch_v1 *launches; /* in order, each after the one before */
    uint32_t check_count;           /* since 1.1 */
    const aule_check_v1 *checks;
    aule_expr
        condition;  /* since 1.2: of sizes; for which calls it is made ("S <= 32"); no code: all */
    uint32_t flags; /* AULE_VARIANT_*, since 1.15 */
} aule_variant_v1;
#define AULE_VARIANT_BY_BATCH                                                                      \
    1u /* bits of a row's result may depend on the other rows of the call */
#define AULE_VARIANT_INVARIANT 2u /* for calls alone that ask that they do not */
typedef enum aule_code_format {
    AULE_CODE_HOST = 0,
    AULE_CODE_OPENCL_C = 1,
    AULE_CODE_PTX = 2,
    AULE_CODE_HSACO = 3,
    AULE_CODE_SPIRV = 4,
    AULE_CODE_MSL = 5
} aule_code_format;

typedef struct aule_attention_v1 {
    uint32_t struct_size;
    const char *name;
    const char *formula; /* the script, normalised, for people */
    uint32_t size_count;
    const aule_size_v1 *sizes;
    uint32_t tensor_count;
    const aule_tensor_v1 *tensors; /* q, k, v, inputs, o, finals */
    uint32_t param_count;
    const aule_param_v1 *params;
    uint32_t require_count;
    const aule_require_v1 *requires_;
    uint32_t variant_count;
    const aule_variant_v1 *variants;
} aule_attention_v1;

typedef struct aule_module_v1 {
    char magic[8];
    uint32_t version_major, version_minor;
    uint32_t struct_size;
    uint32_t attention_count;
    const aule_attention_v1 *attentions;
    const char *producer;    /* "aulec 0.1.0" */
    const char *source_name; /* file name of the script, without its folder */
    uint64_t source_hash;    /* FNV-1a 64 of the script's text */
} aule_module_v1;

#ifdef __cplusplus
}
#endif
#endif
