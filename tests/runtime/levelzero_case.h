/* levelzero_case.h - a run of the sample on the mock of Level Zero, as programs make it: with everything of the device's own, or with
 * context, lists and queues of the caller's. */
#ifndef LEVELZERO_CASE_H
#define LEVELZERO_CASE_H

#include "case.h"
#include "levelzero/inside.h"

/* The loader's functions, as programs find them, and the mock behind them. */
typedef struct Callers {
    LevelZeroMock *mock;
    void (*reset)(void), (*work)(void);
    AuLevelZero ze;
    ze_result_t (*queue_create)(ze_context_handle_t context, ze_device_handle_t device,
                                const ze_command_queue_desc_t *desc,
                                ze_command_queue_handle_t *queue);
    ze_result_t (*queue_destroy)(ze_command_queue_handle_t queue);
} Callers;
extern Callers callers;

/* Where work goes. */
typedef enum On { ON_OWN, ON_IMMEDIATE, ON_RECORDED, ON_COMMANDS, ON_KINDS } On;

typedef struct Setup {
    On on;
    aule_module *module;
    aule_device *device;
    aule_plan *plan;
    aule_buffer *buffers[TENSORS], *workspace;
    aule_event *first, *last;
    Case *c;
    /* the caller's */
    ze_context_handle_t context;
    ze_command_queue_handle_t queue;
    ze_command_list_handle_t list;
    bool by_caller;                  /* a call of the caller's own failed */
    const aule_allocator *allocator; /* NULL: malloc's */
} Setup;

/* Once, before all. [driver]: the mock's file, behind the loader; NULL: the loader is the mock. */
void make_module(const char *driver);
/* The sample's variants need these words; it begins with "SPIR-V_1.0 shared32k". */
void set_features(const char *features);
/* Or are of this code; NULL: of the usual. */
void set_code(const uint32_t *words, size_t bytes);
void open_case(Setup *s, On on);
void close_case(Setup *s);
/* All that a program does, until something fails; what of it comes before plans. */
aule_status open_device(Setup *s, aule_error **error);
aule_status place(Setup *s, aule_error **error);
aule_status run_all(Setup *s, aule_error **error);
aule_status fetch(Setup *s, aule_error **error); /* the outputs */

void expect_nothing_left(void);
void expect_right(On on);
void expect_wrong(On on, aule_status status, const char *text);

#endif
