/* patience.c - how long a device that is waited for may do none of its work, as an environment variable says, before it is taken for hung. */
#include "backend.h"

#include <stdlib.h>

aule_status rt_patience(const char *variable, uint64_t *nanoseconds, AuSink sink)
{
    enum { USUAL = 600, MOST = 1000000, DIGITS = 7 };
    const char *text = getenv(variable);
    *nanoseconds = (uint64_t)USUAL * RT_SECOND;
    if (!text || !*text) return AULE_OK;
    const size_t digits = strspn(text, "0123456789");
    const long seconds = digits <= DIGITS && !text[digits] ? strtol(text, NULL, 10) : 0;
    if (seconds < 1 || seconds > MOST)
        return rt_fail(sink, AULE_ERROR_USAGE, "%s is '%s', expected seconds from 1 to %d",
                       variable, text, MOST);
    *nanoseconds = (uint64_t)seconds * RT_SECOND;
    return AULE_OK;
}

aule_status rt_fail_hung(AuSink sink, const char *backend, uint32_t index, const char *variable,
                         uint64_t nanoseconds)
{
    return rt_fail(sink, AULE_ERROR_DRIVER,
                   "%s:%u: no work was finished in %llu s (%s), the device is taken for hung: open "
                   "it again",
                   backend, index, (unsigned long long)(nanoseconds / RT_SECOND), variable);
}
