#include "device.h"

#include <stdio.h>
#include <stdlib.h>

#include "module.h"
#include "variant.h"

/* ---- backends */

static const AuBackend *const backends[] = {
#define BACKEND(name) &au_backend_##name,
#include "backends/backends.def"
};
enum { BACKENDS = sizeof backends / sizeof *backends };

const AuBackend *rt_backend(const char *name, size_t length)
{
    for (size_t i = 0; i < BACKENDS; i++)
        if (strlen(backends[i]->name) == length && memcmp(backends[i]->name, name, length) == 0)
            return backends[i]->api_version == AU_BACKEND_API ? backends[i] : NULL;
    return NULL;
}

/* ---- lists */

struct aule_device_list {
    AuHeap memory;
    aule_device_info *at;
    size_t count, capacity;
};

struct AuFinder {
    aule_device_list *list;
};

static void free_info(aule_device_info *info)
{
    const char *texts[] = {info->id,     info->reason,   info->name,
                           info->driver, info->features, info->uuid};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) rt_free((void *)(uintptr_t)texts[i]);
}

/* Owns its texts; false: out of memory. */
static bool copy_info(AuHeap memory, aule_device_info *to, const aule_device_info *from)
{
    *to = *from;
    to->struct_size = sizeof *to;
    to->id = rt_strdup(memory, from->id);
    to->reason = rt_strdup(memory, from->reason ? from->reason : "");
    to->name = rt_strdup(memory, from->name ? from->name : "");
    to->driver = rt_strdup(memory, from->driver ? from->driver : "");
    to->features = rt_strdup(memory, from->features ? from->features : "");
    to->uuid = rt_strdup(memory, from->uuid ? from->uuid : "");
    if (to->id && to->reason && to->name && to->driver && to->features && to->uuid) return true;
    free_info(to);
    return false;
}

aule_status rt_found(AuFinder *finder, const aule_device_info *info, AuSink sink)
{
    aule_device_list *list = finder->list;
    if (list->count == list->capacity) {
        size_t capacity = list->capacity * 2 + 4;
        aule_device_info *at = rt_resize(list->memory, list->at, capacity * sizeof *at);
        if (!at) return rt_fail_memory(sink);
        list->at = at;
        list->capacity = capacity;
    }
    if (!copy_info(list->memory, &list->at[list->count], info)) return rt_fail_memory(sink);
    list->count++;
    return AULE_OK;
}

void rt_add_uuid(const uint8_t *uuid, AuText *text)
{
    for (uint32_t n = 0; n < 16; n++)
        rt_text_add(text, "%s%02x", n == 4 || n == 6 || n == 8 || n == 10 ? "-" : "", uuid[n]);
}

aule_status rt_found_none(AuFinder *finder, const char *backend, DLDevice dl, AuText *why,
                          AuSink sink)
{
    const aule_device_info info = {
        .id = backend, .backend = backend, .reason = rt_text_str(why), .dl = dl};
    const aule_status status = why->failed ? rt_fail_memory(sink) : rt_found(finder, &info, sink);
    rt_text_free(why);
    return status;
}

static void empty_list(aule_device_list *list)
{
    for (size_t i = 0; i < list->count; i++) free_info(&list->at[i]);
    rt_free(list->at);
}

/* A processor behind a driver's interface comes after everything else: the native backend serves it better. */
static bool is_second_choice(const aule_device_info *info)
{
    return info->available && info->kind == AULE_DEVICE_CPU && strcmp(info->backend, "cpu") != 0;
}

static void sort_list(aule_device_list *list)
{
    for (size_t i = 1; i < list->count; i++) /* stable insertion */
        for (size_t j = i;
             j > 0 && is_second_choice(&list->at[j - 1]) && !is_second_choice(&list->at[j]); j--) {
            aule_device_info swap = list->at[j];
            list->at[j] = list->at[j - 1];
            list->at[j - 1] = swap;
        }
}

/* Drivers that an attention has no kernels for are not loaded; [attention] may be NULL. */
static aule_status find_all(aule_device_list *list, const aule_attention *attention, AuSink sink)
{
    AuFinder finder = {list};
    for (size_t i = 0; i < BACKENDS; i++) {
        if (attention && !rt_any_variant_for(attention, backends[i])) continue;
        aule_status status = backends[i]->find(&finder, sink);
        if (status) return status;
    }
    sort_list(list);
    return AULE_OK;
}

aule_status aule_device_list_new(const aule_options *options, aule_device_list **list,
                                 aule_error **error)
{
    AuSink sink = {rt_memory(NULL), error};
    aule_status status = rt_begin(options, &sink);
    if (status) return status;
    if (!list)
        return rt_fail(sink, AULE_ERROR_USAGE, "aule_device_list_new: list must not be NULL");
    aule_device_list *made = rt_alloc(sink.memory, sizeof *made);
    if (!made) return rt_fail_memory(sink);
    made->memory = sink.memory;
    status = find_all(made, NULL, sink);
    if (status)
        aule_device_list_free(made);
    else
        *list = made;
    return status;
}

size_t aule_device_list_count(const aule_device_list *list) { return list ? list->count : 0; }

const aule_device_info *aule_device_list_get(const aule_device_list *list, size_t index)
{
    return list && index < list->count ? &list->at[index] : NULL;
}

void aule_device_list_free(aule_device_list *list)
{
    if (!list) return;
    empty_list(list);
    rt_free(list);
}

/* ---- opening */

aule_device *rt_device_keep(aule_device *device)
{
    atomic_fetch_add_explicit(&device->users, 1, memory_order_relaxed);
    return device;
}

void rt_device_release(aule_device *device)
{
    if (atomic_fetch_sub_explicit(&device->users, 1, memory_order_acq_rel) != 1) return;
    if (device->state) device->backend->close(device->state);
    free_info(&device->info);
    rt_free(device);
}

void aule_device_close(aule_device *device)
{
    if (device) rt_device_release(device);
}

const aule_device_info *aule_device_get_info(const aule_device *device)
{
    return device ? &device->info : NULL;
}

static aule_status open_found(const AuBackend *backend, const aule_device_list *list,
                              uint32_t index, const aule_device_options *options,
                              aule_device **device, AuSink sink)
{
    bool nothing = list->count == 1 && !list->at[0].available;
    if (!nothing && list->count == 1 && index > 0)
        return rt_fail(sink, AULE_ERROR_DEVICE, "there is no %s:%u, this machine has %s:0 alone",
                       backend->name, index, backend->name);
    if (!nothing && index >= list->count)
        return rt_fail(sink, AULE_ERROR_DEVICE,
                       "there is no %s:%u, this machine has %s:0 to %s:%zu", backend->name, index,
                       backend->name, backend->name, list->count - 1);
    const aule_device_info *info = &list->at[nothing ? 0 : index];
    if (!info->available)
        return rt_fail(sink, AULE_ERROR_DEVICE, "%s is not available: %s", info->id, info->reason);
    aule_device *made = rt_alloc(list->memory, sizeof *made);
    if (!made || !copy_info(list->memory, &made->info, info)) {
        rt_free(made);
        return rt_fail_memory(sink);
    }
    made->memory = list->memory;
    made->backend = backend;
    atomic_init(&made->users, 1);
    aule_status status = backend->open(list->memory, index, options, &made->state, sink);
    if (status)
        rt_device_release(made);
    else
        *device = made;
    return status;
}

static aule_status check_queue_kind(const AuBackend *backend, uint32_t kind, AuSink sink)
{
    if (kind > AULE_QUEUE_COMMANDS)
        return rt_fail(sink, AULE_ERROR_USAGE,
                       "aule_device_options.queue_kind is %u, expected 0 to %d", kind,
                       AULE_QUEUE_COMMANDS);
    if (!kind || backend->queues[kind]) return AULE_OK;
    if (backend->queues[AULE_QUEUE_RECORDED])
        return rt_fail(sink, AULE_ERROR_USAGE,
                       "aule_device_options.queue_kind is %u, %s has 0 (%s) and "
                       "AULE_QUEUE_RECORDED (%s)",
                       kind, backend->name, backend->queues[AULE_QUEUE_DEFAULT],
                       backend->queues[AULE_QUEUE_RECORDED]);
    return rt_fail(sink, AULE_ERROR_USAGE,
                   "aule_device_options.queue_kind is %u, %s has queues of one kind: 0", kind,
                   backend->name);
}

aule_status rt_device_open(const AuBackend *backend, uint32_t index,
                           const aule_device_options *options, aule_device **device, AuSink sink)
{
    aule_device_list list = {.memory = sink.memory};
    AuFinder finder = {&list};
    aule_status status = check_queue_kind(backend, options->queue_kind, sink);
    if (!status && backend->environment) status = backend->environment(sink);
    if (!status)
        status = options->context && backend->find_given
                     ? backend->find_given(&finder, options, sink)
                     : backend->find(&finder, sink);
    if (!status && list.count == 0)
        status = rt_fail(sink, AULE_ERROR_DEVICE, "%s found no device", backend->name);
    if (!status) status = open_found(backend, &list, index, options, device, sink);
    empty_list(&list);
    return status;
}

static void list_backends(AuText *text)
{
    for (size_t i = 0; i < BACKENDS; i++)
        rt_text_add(text, "%s%s", i ? ", " : "", backends[i]->name);
}

/* What an id names: "cpu", "opencl:1", "vulkan:4f2c..". */
enum { UUID_DIGITS = 32 };
typedef struct Named {
    const AuBackend *backend;
    uint32_t index;
    char uuid[UUID_DIGITS + 1]; /* digits alone, small letters; "": by number */
} Named;

/* "GPU-0123456789abcdef", as AMD's tools name a device: these 16 characters are the 16 bytes of its UUID. */
static bool read_characters(const char *text, size_t length, char *digits)
{
    enum { CHARACTERS = UUID_DIGITS / 2 };
    if (length != 4 + CHARACTERS || memcmp(text, "GPU-", 4) != 0) return false;
    for (uint32_t n = 0; n < CHARACTERS; n++) {
        const char c = text[4 + n];
        if ((c < '0' || c > '9') && (c < 'a' || c > 'f')) return false;
        snprintf(digits + 2 * n, 3, "%02x", (unsigned)c);
    }
    return true;
}

/* Hyphens stand anywhere; NVIDIA's tools write "GPU-" before them. false: it is none. */
static bool read_uuid(const char *text, size_t length, char *digits)
{
    const size_t first = length > 4 && memcmp(text, "GPU-", 4) == 0 ? 4 : 0;
    uint32_t count = 0;
    if (read_characters(text, length, digits)) return true;
    for (size_t n = first; n < length; n++) {
        const char c = text[n];
        const bool letter = (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
        if (c == '-') continue;
        if ((!letter && (c < '0' || c > '9')) || count == UUID_DIGITS) return false;
        digits[count++] = (char)(letter ? c | 0x20 : c);
    }
    digits[count] = 0;
    return count == UUID_DIGITS;
}

static aule_status read_id(const char *id, size_t length, Named *named, AuSink sink)
{
    enum { MOST_DEVICES = 100000 };
    const char *colon = memchr(id, ':', length);
    size_t name_length = colon ? (size_t)(colon - id) : length;
    *named = (Named){.backend = rt_backend(id, name_length)};
    if (!named->backend) {
        AuText names = {.memory = sink.memory};
        list_backends(&names);
        aule_status status =
            rt_fail(sink, AULE_ERROR_DEVICE, "there is no backend '%.*s', this build has %s",
                    (int)length, id, rt_text_str(&names));
        rt_text_free(&names);
        return status;
    }
    if (!colon) return AULE_OK;
    const size_t rest = length - name_length - 1;
    if (read_uuid(colon + 1, rest, named->uuid)) return AULE_OK;
    named->uuid[0] = 0;
    if (rt_parse_number(colon + 1, rest, MOST_DEVICES, &named->index)) return AULE_OK;
    const char *name = named->backend->name;
    if (named->backend->has_uuids)
        return rt_fail(sink, AULE_ERROR_DEVICE,
                       "'%.*s' is not a device, expected a name like %s:0, or %s:UUID, the 32 "
                       "hexadecimal digits that `aule devices` shows",
                       (int)length, id, name, name);
    return rt_fail(sink, AULE_ERROR_DEVICE, "'%.*s' is not a device, expected a name like %s:0",
                   (int)length, id, name);
}

/* Which UUIDs there are: "vulkan:0 is ..". */
static aule_status fail_uuid(const aule_device_list *list, const Named *named, AuSink sink)
{
    AuText there = {.memory = sink.memory};
    const char *name = named->backend->name;
    for (size_t n = 0; n < list->count; n++)
        if (list->at[n].uuid && *list->at[n].uuid)
            rt_text_add(&there, "%s%s is %s", there.length ? ", " : "", list->at[n].id,
                        list->at[n].uuid);
    if (!there.length) rt_text_add(&there, "no device of %s here has one", name);
    aule_status status = there.failed ? rt_fail_memory(sink)
                                      : rt_fail(sink, AULE_ERROR_DEVICE,
                                                "there is no %s device with the UUID %s: %s", name,
                                                named->uuid, rt_text_str(&there));
    rt_text_free(&there);
    return status;
}

/* The first with that UUID: a device that two drivers have is there twice. */
static aule_status find_uuid(Named *named, const aule_device_options *options, AuSink sink)
{
    aule_device_list list = {.memory = sink.memory};
    AuFinder finder = {&list};
    char digits[UUID_DIGITS + 1];
    const AuBackend *b = named->backend;
    aule_status status = options->context && b->find_given ? b->find_given(&finder, options, sink)
                                                           : b->find(&finder, sink);
    size_t n = 0;
    while (!status && n < list.count &&
           !(read_uuid(list.at[n].uuid, strlen(list.at[n].uuid), digits) &&
             strcmp(digits, named->uuid) == 0))
        n++;
    if (!status && n == list.count) status = fail_uuid(&list, named, sink);
    /* not its place in the list: there may be devices before it that no driver told anything of */
    if (!status)
        named->index = (uint32_t)strtoul(list.at[n].id + strcspn(list.at[n].id, ":") + 1, NULL, 10);
    empty_list(&list);
    return status;
}

aule_status rt_check_id(const char *id, size_t length, AuSink sink)
{
    Named named;
    return read_id(id, length, &named, sink);
}

aule_status rt_open_named(const char *id, size_t length, const aule_device_options *options,
                          aule_device **device, AuSink sink)
{
    Named named;
    aule_status status = read_id(id, length, &named, sink);
    if (!status && named.uuid[0]) status = find_uuid(&named, options, sink);
    return status ? status : rt_device_open(named.backend, named.index, options, device, sink);
}

/* ---- the environment */

/* AULE_NUM_THREADS, which must be right whatever device it is that is opened; 0 where it is not set. */
static aule_status threads_from_environment(uint32_t *threads, AuSink sink)
{
    const char *text = getenv("AULE_NUM_THREADS");
    *threads = 0;
    if (!text || !*text) return AULE_OK;
    if (rt_parse_number(text, strlen(text), AU_MOST_THREADS, threads) && *threads > 0)
        return AULE_OK;
    return rt_fail(sink, AULE_ERROR_USAGE, "AULE_NUM_THREADS is '%s', expected 1 to %d", text,
                   AU_MOST_THREADS);
}

/* ---- what is there */

static aule_status check_environment(const aule_attention *attention, AuSink sink)
{
    aule_status status = AULE_OK;
    for (size_t i = 0; !status && i < BACKENDS; i++)
        if (backends[i]->environment && (!attention || rt_any_variant_for(attention, backends[i])))
            status = backends[i]->environment(sink);
    return status;
}

static aule_status open_first(const aule_device_options *options, aule_device **device, AuSink sink)
{
    aule_device_list list = {.memory = sink.memory};
    aule_status status = check_environment(options->attention, sink);
    if (!status) status = find_all(&list, options->attention, sink);
    AuText reasons = {.memory = sink.memory};
    bool opened = false;
    for (size_t i = 0; !status && !opened && i < list.count; i++) {
        const aule_device_info *info = &list.at[i];
        aule_error *error = NULL;
        if (!info->available)
            rt_text_add(&reasons, "%s%s: %s", reasons.length ? "; " : "", info->id, info->reason);
        else if (options->attention && !rt_any_variant_fits(options->attention, info))
            rt_no_variant_text(&reasons, options->attention, info);
        else if (rt_open_named(info->id, strlen(info->id), options, device,
                               (AuSink){sink.memory, &error}) == AULE_OK)
            opened = true;
        else
            rt_text_add(&reasons, "%s%s", reasons.length ? "; " : "", aule_error_message(error));
        aule_error_free(error);
    }
    if (options->attention && list.count == 0)
        rt_text_add(&reasons, "the artifact has kernels for no backend of this build");
    if (!status && !opened)
        status =
            rt_fail(sink, AULE_ERROR_DEVICE, "no device can be used: %s", rt_text_str(&reasons));
    rt_text_free(&reasons);
    empty_list(&list);
    return status;
}

aule_status aule_device_open(const char *id, const aule_device_options *options,
                             aule_device **device, aule_error **error)
{
    AuSink sink = {rt_memory(NULL), error};
    aule_device_options read;
    aule_status status =
        rt_read_options(&read, sizeof read, sizeof read, options, "aule_device_options", sink);
    if (status) return status;
    if (!device)
        return rt_fail(sink, AULE_ERROR_USAGE, "aule_device_open: device must not be NULL");
    status = rt_use_allocator(read.allocator, &sink);
    if (status) return status;
    if (read.threads > AU_MOST_THREADS)
        return rt_fail(sink, AULE_ERROR_USAGE,
                       "aule_device_options.threads is %u, expected at most %d", read.threads,
                       AU_MOST_THREADS);
    if (!id && read.context)
        return rt_fail(sink, AULE_ERROR_USAGE,
                       "aule_device_options.context is one backend's: the device needs a name");
    uint32_t threads;
    status = threads_from_environment(&threads, sink);
    if (status) return status;
    if (read.threads == 0) read.threads = threads;
    if (id) return rt_open_named(id, strlen(id), &read, device, sink);
    bool is_named;
    status = rt_open_from_environment(&read, device, &is_named, sink);
    return is_named ? status : open_first(&read, device, sink);
}
