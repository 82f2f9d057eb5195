/* run.c - aule run: forward, and backward if the gradient of the output is given, or a step if states are, or what --operation
 * names, on arrays from files; outputs into files. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "session.h"

static int make_folder(const char *path)
{
    struct stat facts;
    if (mkdir(path, 0777) == 0) return 0;
    int cause = errno;
    if (cause == EEXIST && stat(path, &facts) == 0 && S_ISDIR(facts.st_mode)) return 0;
    return command_fail(EXIT_FILE, "%s: cannot be made: %s", path, strerror(cause));
}

/* The state after the last token has the name under which a step takes it; the others are named as the artifact does. */
static int length_of(const aule_tensor_v1 *t)
{
    const size_t length = strlen(t->name);
    return (int)(t->role == AULE_ROLE_STATE_OUT ? length - strlen("_out") : length);
}

static int write_outputs(const AuSession *s, const char *folder)
{
    AuWhy why;
    for (uint32_t i = 0; i < s->signature->tensor_count; i++) {
        char path[4096];
        const aule_tensor_v1 *t = session_tensor(s, i);
        const bool kept = t->role == AULE_ROLE_KEPT || t->role == AULE_ROLE_KEPT_ROW;
        if (!session_is_result(s, t) || kept || !s->arrays[i].data) continue;
        const AuPrepared *step =
            &s->steps[session_is_of_backward(t) ? STEP_BACKWARD : STEP_FORWARD];
        int length = snprintf(path, sizeof path, "%s/%.*s.npy", folder, length_of(t), t->name);
        if (length < 0 || (size_t)length >= sizeof path)
            return command_fail(EXIT_FILE, "%s: the path is too long", folder);
        if (!array_write(&s->arrays[i], path, &why)) return command_fail(EXIT_FILE, "%s", why.text);
        printf("%s: %s [", path, array_dtype_name(s->arrays[i].dtype));
        for (int32_t axis = 0; axis < s->arrays[i].rank; axis++)
            printf("%s%lld", axis ? ", " : "", (long long)s->arrays[i].shape[axis]);
        printf("], by %s %s\n", aule_device_get_info(s->device)->id,
               aule_plan_variant(step->plan)->arch);
    }
    return 0;
}

static int run_session(AuSession *s, AuOptions *options)
{
    uint32_t dtype;
    int status = session_open(s, options);
    const char *folder = options_take(options, "output");
    if (!status) status = session_dtype(options, &dtype);
    if (status) return status;
    if (!folder) return command_fail(EXIT_USAGE, "expected -o DIR, where the outputs go");
    status = session_read(s, options, dtype);
    if (!status) status = session_prepare(s);
    if (!status) status = session_run(s, STEP_FORWARD);
    if (!status && s->backward) status = session_run(s, STEP_BACKWARD);
    if (!status) status = session_wait(s);
    if (!status) status = session_fetch(s);
    if (!status) status = make_folder(folder);
    if (!status) status = write_outputs(s, folder);
    return status;
}

int command_run(AuOptions *options)
{
    AuSession session;
    int status = run_session(&session, options);
    session_close(&session);
    return status;
}
