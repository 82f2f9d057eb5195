/* descriptor.h - reading artifacts: checks that a descriptor is one we understand (check_module.c), and steps through its arrays.
 * Arrays of structures that carry struct_size step by that of their first element, so that an artifact of a later minor version, with
 * longer structures, is read right. After rt_check_module, counts and pointers may be trusted: of a library all that they speak of lies
 * in what was mapped of its file, and is not much more than it has. Expressions are checked as they are evaluated. A hostile artifact that a
 * loader takes is beyond this: it is code. */
#ifndef AU_RUNTIME_DESCRIPTOR_H
#define AU_RUNTIME_DESCRIPTOR_H

#include "base.h"
#include "segments.h"

/* [segments]: what the file takes of memory; NULL: the descriptor is the program's own. */
aule_status rt_check_module(const aule_module_v1 *module, const AuSegments *segments,
                            const char *where, AuSink sink);

const aule_attention_v1 *rt_attention(const aule_module_v1 *module, uint32_t index);
const aule_tensor_v1 *rt_tensor(const aule_attention_v1 *attention, uint32_t index);
const aule_param_v1 *rt_param(const aule_attention_v1 *attention, uint32_t index);
const aule_variant_v1 *rt_variant(const aule_attention_v1 *attention, uint32_t index);
const aule_launch_v1 *rt_launch(const aule_variant_v1 *variant, uint32_t index);

uint32_t rt_block(const aule_launch_v1 *launch, int axis); /* threads; one where 0 is said */

/* 0 for artifacts of before there were any. */
uint32_t rt_map_count(const aule_launch_v1 *launch);
/* May it be launched before the one before it, of the same run, has ended? */
bool rt_is_early(const aule_launch_v1 *launch);
bool rt_is_behind_append(const aule_launch_v1 *launch);
/* Bytes of which the address of lists of work is a multiple. */
enum { AU_WORK_ALIGN = 64 };
/* Does it make lists of work, which other launches only read (AULE_LAUNCH_WORK)? The regions that such launches write, bit n the variant's number n. */
bool rt_is_work(const aule_launch_v1 *launch);
uint64_t rt_work_regions(const aule_variant_v1 *variant);
/* Does it say what it does with the memory of its slots? Artifacts before 1.17 do not. Then: AULE_TOUCH_* of a slot. */
bool rt_knows_touches(const aule_launch_v1 *launch);
uint32_t rt_touch_words(uint32_t slots); /* that hold so many */
uint32_t rt_touch(const aule_launch_v1 *launch, uint32_t slot);
const aule_map_v1 *rt_map(const aule_launch_v1 *launch, uint32_t index);

/* Of --checked; 0 for artifacts of before there were any. */
uint32_t rt_check_count(const aule_variant_v1 *variant);

/* For which calls a variant is made; NULL: for all. */
const aule_expr *rt_condition(const aule_variant_v1 *variant);

/* Is it for calls that ask for bits that do not depend on the batch, or for others? Of artifacts before 1.15 nobody knows of the former. */
bool rt_is_for(const aule_variant_v1 *variant, bool invariant);

/* Element types: "bf16", its bytes, and how DLPack writes it. */
const char *rt_dtype_name(uint32_t dtype);
bool rt_dtype_is_known(uint32_t dtype);
uint32_t rt_dtype_bytes(uint32_t dtype); /* 0: not a type of elements */
DLDataType rt_dtype_dl(uint32_t dtype);
uint32_t rt_dtype_from_dl(DLDataType type); /* aule_dtype; AULE_OPERAND: none of ours */

/* What an operation does with a tensor: nothing (it is not passed), reads it, writes it; and when it must be passed
 * (aule/operations.def). */
typedef enum AuPart { AU_PART_NONE, AU_PART_READ, AU_PART_WRITTEN } AuPart;
typedef enum AuPassed {
    AU_PASSED_ALWAYS,
    AU_PASSED_UNLESS_MARKED,
    AU_PASSED_IF_GIVEN,
    AU_PASSED_UNLESS_KEPT,
    AU_PASSED_IF_JOINED,
    AU_PASSED_IF_CACHED
} AuPassed;
typedef struct AuOperation AuOperation;
/* NULL, and any name that the table does not have: forward. */
const AuOperation *rt_operation(const char *name);
AuPart rt_part(const AuOperation *operation, const aule_tensor_v1 *tensor);
AuPassed rt_passed(const AuOperation *operation, const aule_tensor_v1 *tensor);
/* The name of the first operation that does something with it. */
const char *rt_operation_with(const aule_tensor_v1 *tensor);

/* Tensors that forward keeps for backward stand in for the output there. */
bool rt_keeps_output(const aule_attention_v1 *attention);

const char *rt_size_name(const aule_attention_v1 *attention,
                         uint32_t size); /* "a width" where it has none */

/* Is [word] among the space-separated [words]? */
bool rt_has_word(const char *words, const char *word, size_t length);

#endif
