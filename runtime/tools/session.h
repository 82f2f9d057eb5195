/* session.h - one attention on one device, from a command line: what run and bench have in common. Forward, and backward after it where
 * `backward` is set or a gradient was given for the output; or a step, where the states were given that it writes; or the one that --operation names.
 * Order of use: open, read or make inputs and params, prepare (which makes the outputs), run, fetch. */
#ifndef AU_TOOLS_SESSION_H
#define AU_TOOLS_SESSION_H

#include "command.h"

enum { MAX_ARGS = 64 };

typedef enum AuDirection { STEP_FORWARD, STEP_BACKWARD, STEPS } AuDirection;

typedef struct AuPrepared {
    aule_plan *plan;
    aule_buffer *workspace;
    aule_run run;
} AuPrepared;

typedef struct AuSession {
    aule_module *module;
    aule_attention *attention;
    const aule_attention_v1 *signature;
    aule_device *device;
    bool backward;
    bool invariant;        /* of forward: results that do not depend on the batch */
    uint32_t operand;      /* of results: --dtype; AULE_OPERAND: that of what was given */
    const char *operation; /* the first one as the command line names it; NULL: forward or step */
    bool on_pool;          /* the first operation is "step", on states in place of "forward" */
    bool appends;          /* forward is given new rows, which it appends first */
    bool host;             /* the device reads the arrays where they are */
    AuArray arrays[MAX_ARGS]; /* by index of the signature; no data: not given */
    aule_buffer *buffers[MAX_ARGS];
    DLTensor tensors[MAX_ARGS];
    aule_param_arg param_args[MAX_ARGS];
    size_t param_count;
    const char *arch;
    AuPrepared steps[STEPS];
} AuSession;

/* All return 0, or an exit status after a message. A session that was opened must be closed, also after a failure. */
int session_open(AuSession *session, AuOptions *options);
/* Of an artifact of several layouts: "T=paged", "" for the dense one, NULL for the one that needs no word. */
int session_open_layout(AuSession *session, AuOptions *options, const char *layout);
/* session_layout.c: sets the attention of [name], or the one that needs none if it is NULL, whose rows lie so. Without a word on the layout it is the dense
 * one, or else the only one. */
int session_find(AuSession *session, const char *name, const char *layout);
void session_close(AuSession *session);

const aule_tensor_v1 *session_tensor(const AuSession *session, uint32_t index);
/* Rows of the other tables, which like tensors lie as far apart as the first one says (artifact.h). */
const aule_variant_v1 *session_variant(const aule_attention_v1 *attention, uint32_t index);
const aule_param_v1 *session_param(const aule_attention_v1 *attention, uint32_t index);
/* That of the tensor whose name consists of the two; NULL: there is none. */
AuArray *session_array(AuSession *session, const char *name, const char *suffix);
const char *session_operation(const AuSession *session, AuDirection step);
bool session_is_made(const aule_tensor_v1 *tensor); /* by a kernel; else it is given */
/* Made, or changed in place. */
bool session_is_result(const AuSession *session, const aule_tensor_v1 *tensor);
bool session_is_of_backward(const aule_tensor_v1 *tensor); /* and unknown to forward and steps */
int32_t session_find_role(const AuSession *session, uint32_t role); /* -1: none */

/* --dtype; AULE_OPERAND where it is not given. */
int session_dtype(AuOptions *options, uint32_t *dtype);

/* Reads every option that is the name of an input, of a gradient that is given or of a param; an option that is nothing is an error.
 * [dtype] not AULE_OPERAND: operands are converted to it, and f64 to whatever the script declares. */
int session_read(AuSession *session, AuOptions *options, uint32_t dtype);

/* Random inputs of --shape and --dtype; options that name an input or a param are read. `backward` must be set by now. */
int session_make_inputs(AuSession *session, AuOptions *options);
/* The same with the sizes "S=100,T=7" of [shape], NULL: none. */
int session_make_shaped(AuSession *session, AuOptions *options, const char *shape);
/* The name of the size that an axis is; "": it is none, or has no name. */
const char *session_axis_name(const AuSession *session, const aule_tensor_v1 *tensor,
                              uint32_t axis);

/* A list of a layout that was not given: full sequences. The shapes of all arguments must be there. */
void session_fill_list(AuSession *session, uint32_t index);
/* Has a list of sizes ("B=2,T=9") this one? */
bool session_says_size(const char *shape, const char *name);
/* Adds the size AXIS SUFFIX to the list, which has room for so many bytes, if the signature has such a size and the list has not. */
void session_add_size(const AuSession *session, char *shape, size_t bytes, const char *axis,
                      const char *suffix, int64_t value);
/* The n-th page that is given to a sequence, of so many: those of a sequence lie apart. */
int64_t session_page(int64_t n, int64_t pages);
/* By how much of the largest value o of rows in a layout may differ from that of dense calls of single sequences. */
double session_dense_bound(const aule_variant_v1 *variant);
/* Queries times keys of all sequences, as lists say. */
double session_pairs(const AuSession *session);

/* Uploads inputs, makes outputs, plans, makes the workspace. */
int session_prepare(AuSession *session);
int session_run(AuSession *session, AuDirection step); /* does not wait */
int session_wait(AuSession *session);
int session_fetch(AuSession *session); /* outputs into their arrays */

#endif
