/* metal_objects.c - objects of the double of Metal: classes, counts, pools, misuse. */
#include "metal_objects.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

pthread_mutex_t metal_lock = PTHREAD_MUTEX_INITIALIZER;
MetalDouble metal_told;
Object metal_device = {.is = "MTLDevice", .count = 1},
       metal_second = {.is = "MTLDevice", .count = 1};
static Object *newest; /* of those that are alive */
/* Pools are a thread's own, as on macOS. */
static _Thread_local Object *pool[4096];
static _Thread_local unsigned pooled, marks[256], pools;

EXPORT MetalDouble *metal_double(void) { return &metal_told; }

void metal_broken(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (!metal_told.broken[0]) {
        vsnprintf(metal_told.broken, sizeof metal_told.broken, format, arguments);
        fprintf(stderr, "metal double: %s\n", metal_told.broken);
    }
    va_end(arguments);
}

Object *metal_make(const char *is)
{
    Object *o = calloc(1, sizeof *o);
    o->is = is;
    o->count = 1;
    metal_told.objects++;
    o->older = newest;
    return newest = o;
}

static void forget(const Object *o)
{
    Object **at = &newest;
    while (*at && *at != o) at = &(*at)->older;
    if (*at) *at = o->older;
}

/* As on macOS, where objects are allocated one by one; what buffers hold is not. */
EXPORT size_t malloc_size(const void *block);
size_t malloc_size(const void *block)
{
    pthread_mutex_lock(&metal_lock);
    const Object *o = newest;
    while (o && o != block) o = o->older;
    pthread_mutex_unlock(&metal_lock);
    return o ? sizeof *o : 0;
}

static int is_device(const Object *o) { return o == &metal_device || o == &metal_second; }

void metal_drop(Object *o)
{
    if (!o) return;
    if (o->count <= is_device(o)) metal_broken("%s is released once too often", o->is);
    o->count--;
    if (is_device(o)) metal_told.objects--; /* a hold of it */
    if (o->count > 0) return;
    metal_told.objects--;
    forget(o);
    free(o->text);
    if (!o->borrowed) free(o->memory);
    if (!metal_is_kept(o->compiled)) metal_forget(o->compiled);
    metal_drop(o->owner);
    metal_drop(o->pipeline);
    free(o);
}

Object *metal_keep(Object *o)
{
    o->count++;
    if (is_device(o)) metal_told.objects++;
    return o;
}

Object *metal_autorelease(Object *o)
{
    if (!pools) metal_broken("%s is autoreleased without a pool", o->is);
    if (pooled == 4096)
        metal_broken("a pool holds too much");
    else
        pool[pooled++] = o;
    return o;
}

Object *metal_string(const char *text)
{
    Object *o = metal_make("NSString");
    o->text = strdup(text);
    return o;
}

/* ---- pools */

EXPORT void *objc_autoreleasePoolPush(void);
EXPORT void objc_autoreleasePoolPop(void *mark);
void *objc_autoreleasePoolPush(void)
{
    if (metal_told.idle) return NULL;
    pthread_mutex_lock(&metal_lock);
    metal_told.pools++;
    pthread_mutex_unlock(&metal_lock);
    marks[pools++] = pooled;
    return (void *)(uintptr_t)pools;
}
void objc_autoreleasePoolPop(void *mark)
{
    if (metal_told.idle) return;
    pthread_mutex_lock(&metal_lock);
    if ((uintptr_t)mark != (uintptr_t)pools) metal_broken("pools are not popped in order");
    metal_told.pools--;
    pools--;
    while (pooled > marks[pools]) metal_drop(pool[--pooled]);
    pthread_mutex_unlock(&metal_lock);
}

/* ---- what a message finds wrong */

int metal_must_be(const Object *o, const char *is, const char *selector)
{
    if (o && strcmp(o->is, is) == 0) return 1;
    metal_broken("%s is given %s, expected %s", selector, o ? o->is : "nil", is);
    return 0;
}

int metal_fails(const char *selector)
{
    if (++metal_told.calls != metal_told.fail_at) return 0;
    metal_told.failed = selector;
    return 1;
}

void metal_set_error(uint64_t place, const char *text)
{
    if (!place) return;
    Object *error = metal_make("NSError");
    error->text = strdup(text);
    *(Object **)(uintptr_t)place = metal_autorelease(error);
}

void metal_finish(void)
{
    for (Object *o = newest; o; o = o->older)
        if (strcmp(o->is, "MTLCommandBuffer") == 0 && o->state == 2) o->state = o->fails ? 5 : 4;
}

static int told(int by_test, const char *said, int usual)
{
    return by_test ? by_test : said ? atoi(said) : usual;
}

int metal_macos(void) { return told(metal_told.macos, getenv("METAL_DOUBLE_MACOS"), 14); }

int metal_family(void) { return told(metal_told.family, getenv("METAL_DOUBLE_FAMILY"), 7); }
