/* aule_sycl.h - what a queue of SYCL's is to Level Zero, which only C++ gives out: for aule_device_options.context and aule_run.queue. A library of its own,
 * made where SYCL is (meson -Dsycl=), since libaule depends on libc alone; the Python package loads it for tensors of torch on "xpu". */
#ifndef AULE_SYCL_H
#define AULE_SYCL_H

#include "aule/aule.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct aule_sycl_queue {
    void *context;       /* ze_context_handle_t, SYCL's, which outlives the queue */
    void *queue;         /* an immediate ze_command_list_handle_t, or a ze_command_queue_handle_t */
    uint32_t queue_kind; /* which: AULE_QUEUE_DEFAULT, AULE_QUEUE_COMMANDS */
    uint8_t uuid[16];    /* of the device: "levelzero:UUID" opens it */
} aule_sycl_queue;

/* [queue]: the address of a sycl::queue, as torch.xpu.Stream.sycl_queue is. 0: fine; else [why] has up to [size] bytes of text: it is of another backend,
 * its commands are in no order, or SYCL's own words. */
AULE_API int aule_sycl_read(const void *queue, aule_sycl_queue *made, char *why, size_t size);

/* Waits for all that was put on the queue: what SYCL has not handed to a ze_command_queue_handle_t yet would come behind ours. */
AULE_API int aule_sycl_wait(void *queue, char *why, size_t size);

#ifdef __cplusplus
}
#endif

#endif
