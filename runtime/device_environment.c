/* device_environment.c - the device that AULE_BACKEND and AULE_DEVICE name, where the program names none. */
#include <ctype.h>
#include <stdlib.h>

#include "device.h"

/* One or more ids with commas, and the variables that they are from, as errors name them. */
typedef struct Asked {
    AuText ids;
    const char *from;
} Asked;

static bool is_number(const char *text) { return strspn(text, "0123456789") == strlen(text); }

/* AULE_DEVICE comes first: ids, or the number of a device of the one backend that AULE_BACKEND then names. No ids: neither is set. The Python
 * package has the same rules (_devices.py). */
static aule_status read_environment(Asked *asked, AuSink sink)
{
    const char *backend = getenv("AULE_BACKEND"), *device = getenv("AULE_DEVICE");
    *asked = (Asked){.ids.memory = sink.memory, .from = "AULE_BACKEND"};
    if (!backend) backend = "";
    if (!device || !*device) {
        rt_text_add(&asked->ids, "%s", backend);
    } else if (!is_number(device)) {
        asked->from = "AULE_DEVICE";
        rt_text_add(&asked->ids, "%s", device);
    } else if (!*backend || strpbrk(backend, ",:")) {
        return rt_fail(sink, AULE_ERROR_DEVICE,
                       "AULE_DEVICE is '%s', a number: AULE_BACKEND must name the one backend "
                       "whose device it is, it is '%s'",
                       device, backend);
    } else {
        asked->from = "AULE_BACKEND and AULE_DEVICE";
        rt_text_add(&asked->ids, "%s:%s", backend, device);
    }
    return asked->ids.failed ? rt_fail_memory(sink) : AULE_OK;
}

/* The next of several ids, without the spaces around it. false: there is none. */
typedef struct Id {
    const char *at;
    size_t length;
    const char *rest; /* behind it, at a comma or the end; NULL: before the first */
} Id;

static bool next_id(const char *ids, Id *id)
{
    if (id->rest && !*id->rest) return false;
    id->at = id->rest ? id->rest + 1 : ids;
    id->length = strcspn(id->at, ",");
    id->rest = id->at + id->length;
    while (id->length && isspace((unsigned char)id->at[0])) id->at++, id->length--;
    while (id->length && isspace((unsigned char)id->at[id->length - 1])) id->length--;
    return true;
}

/* Every item is the name of a device that there could be. */
static aule_status check_ids(const Asked *asked, AuSink sink)
{
    aule_status status = AULE_OK;
    for (Id id = {0}; !status && next_id(rt_text_str(&asked->ids), &id);) {
        aule_error *error = NULL;
        status = rt_check_id(id.at, id.length, (AuSink){sink.memory, &error});
        if (status)
            status = rt_fail(sink, status, "%s: %s", asked->from, aule_error_message(error));
        aule_error_free(error);
    }
    return status;
}

/* The first that opens; the reasons of all otherwise. */
static aule_status open_ids(const Asked *asked, const aule_device_options *options,
                            aule_device **device, AuSink sink)
{
    aule_status status = AULE_ERROR_DEVICE;
    AuText reasons = {.memory = sink.memory};
    /* nothing falls back from a wrong value */
    for (Id id = {0};
         status && status != AULE_ERROR_USAGE && next_id(rt_text_str(&asked->ids), &id);) {
        aule_error *error = NULL;
        status = rt_open_named(id.at, id.length, options, device, (AuSink){sink.memory, &error});
        if (status)
            rt_text_add(&reasons, "%s%s", reasons.length ? "; " : "", aule_error_message(error));
        aule_error_free(error);
    }
    if (status) status = rt_fail(sink, status, "%s: %s", asked->from, rt_text_str(&reasons));
    rt_text_free(&reasons);
    return status;
}

aule_status rt_open_from_environment(const aule_device_options *options, aule_device **device,
                                     bool *is_named, AuSink sink)
{
    Asked asked;
    aule_status status = read_environment(&asked, sink);
    *is_named = status || asked.ids.length;
    if (!status && *is_named) status = check_ids(&asked, sink);
    if (!status && *is_named) status = open_ids(&asked, options, device, sink);
    rt_text_free(&asked.ids);
    return status;
}
