#include "recent.h"

#include <string.h>

void rt_recent_begin(AuRecent *r)
{
    pthread_mutex_init(&r->lock, NULL);
    r->count = r->open = 0;
}

void rt_recent_end(AuRecent *r) { pthread_mutex_destroy(&r->lock); }

uint64_t rt_recent_add(AuRecent *r, const void *queue, const char *name)
{
    const size_t length = strlen(name), most = RECENT_NAME - 1;
    if (length > most) name += length - most;
    pthread_mutex_lock(&r->lock);
    const uint64_t number = ++r->count, at = number % RECENT_LAUNCHES;
    r->open |= 1ull << at;
    r->queue[at] = queue;
    memcpy(r->name[at], name, (length < most ? length : most) + 1);
    pthread_mutex_unlock(&r->lock);
    return number;
}

uint64_t rt_recent_count(AuRecent *r)
{
    pthread_mutex_lock(&r->lock);
    const uint64_t count = r->count;
    pthread_mutex_unlock(&r->lock);
    return count;
}

/* The oldest that is remembered. */
static uint64_t first_of(const AuRecent *r)
{
    return r->count > RECENT_LAUNCHES ? r->count - RECENT_LAUNCHES + 1 : 1;
}

void rt_recent_done(AuRecent *r, const void *queue, uint64_t upto)
{
    pthread_mutex_lock(&r->lock);
    for (uint64_t n = first_of(r); n <= upto && r->open; n++)
        if (r->queue[n % RECENT_LAUNCHES] == queue) r->open &= ~(1ull << n % RECENT_LAUNCHES);
    pthread_mutex_unlock(&r->lock);
}

void rt_recent_name(AuRecent *r, uint64_t number, AuText *text)
{
    pthread_mutex_lock(&r->lock);
    if (number >= first_of(r) && number <= r->count)
        rt_text_add(text, "%s", r->name[number % RECENT_LAUNCHES]);
    pthread_mutex_unlock(&r->lock);
}

static bool has(const AuRecent *r, const uint64_t *found, size_t count, uint64_t at)
{
    for (size_t n = 0; n < count; n++)
        if (strcmp(r->name[found[n]], r->name[at]) == 0) return true;
    return false;
}

/* The newest of each name, newest first. */
static size_t collect(const AuRecent *r, const void *queue, bool any, uint64_t *found)
{
    size_t count = 0;
    for (uint64_t n = r->count; n >= first_of(r) && count < RECENT_TOLD; n--) {
        const uint64_t at = n % RECENT_LAUNCHES;
        if (r->open >> at & 1 && (any || r->queue[at] == queue) && !has(r, found, count, at))
            found[count++] = at;
    }
    return count;
}

static void tell(AuRecent *r, const void *queue, bool any, AuText *text)
{
    uint64_t found[RECENT_TOLD];
    pthread_mutex_lock(&r->lock);
    const size_t count = collect(r, queue, any, found);
    for (size_t n = 0; n < count; n++)
        rt_text_add(text, "%s%s", n ? ", " : "; launched last and not seen done: ",
                    r->name[found[count - 1 - n]]);
    pthread_mutex_unlock(&r->lock);
}

void rt_recent_tell(AuRecent *r, AuText *text) { tell(r, NULL, true, text); }

void rt_recent_tell_of(AuRecent *r, const void *queue, AuText *text)
{
    tell(r, queue, false, text);
}
