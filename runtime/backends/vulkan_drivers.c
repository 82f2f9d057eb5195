/* vulkan_drivers.c - the manifests of drivers (ICD) that lie where Vulkan's loader looks, for messages: a loader that finds drivers and can
 * use none says the same as one that finds none.
 * Where it looks: "Driver Discovery on Linux", LoaderDriverInterface.md of the Vulkan loader. */
#include "vulkan.h"

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

enum { NAMED = 4 }; /* more are counted only */
typedef struct Manifests {
    AuText *names;
    uint32_t count;
} Manifests;

static bool is_manifest(const char *name)
{
    const size_t length = strlen(name);
    return length > 5 && strcmp(name + length - 5, ".json") == 0;
}

static void add(Manifests *m, const char *folder, const char *name)
{
    if (m->count++ < NAMED)
        rt_text_add(m->names, "%s%s%s%s", m->count > 1 ? ", " : "", folder, *folder ? "/" : "",
                    name);
}

static void look_into(Manifests *m, const char *folder)
{
    DIR *all = opendir(folder);
    if (!all) return;
    for (const struct dirent *one; (one = readdir(all));)
        if (is_manifest(one->d_name)) add(m, folder, one->d_name);
    closedir(all);
}

/* Each of the parts between colons, with [behind] behind it: a manifest, or a folder of them. */
static void look_along(Manifests *m, AuHeap heap, const char *list, const char *behind)
{
    for (const char *at = list; *at;) {
        const size_t length = strcspn(at, ":");
        AuText path = {.memory = heap};
        rt_text_add(&path, "%.*s%s", (int)length, at, behind);
        const char *name = rt_text_str(&path);
        if (length && is_manifest(name) && access(name, R_OK) == 0)
            add(m, "", name);
        else if (length)
            look_into(m, name);
        rt_text_free(&path);
        at += length + (at[length] == ':');
    }
}

/* The variable's value, or what stands for it where it is not set. */
static void look(Manifests *m, AuHeap heap, const char *value, const char *instead)
{
    look_along(m, heap, value && *value ? value : instead, "/vulkan/icd.d");
}

static void look_everywhere(Manifests *m, AuHeap heap)
{
    const char *home = getenv("HOME");
    AuText config = {.memory = heap}, data = {.memory = heap};
    rt_text_add(&config, "%s/.config", home ? home : "");
    rt_text_add(&data, "%s/.local/share", home ? home : "");
    look(m, heap, getenv("XDG_CONFIG_HOME"), rt_text_str(&config));
    look(m, heap, getenv("XDG_CONFIG_DIRS"), "/etc/xdg");
    look_along(m, heap, "/usr/local/etc:/etc", "/vulkan/icd.d");
    look(m, heap, getenv("XDG_DATA_HOME"), rt_text_str(&data));
    look(m, heap, getenv("XDG_DATA_DIRS"), "/usr/local/share:/usr/share");
    rt_text_free(&config);
    rt_text_free(&data);
}

void rt_vulkan_drivers(AuHeap heap, const char *wrong, AuText *why)
{
    const char *now = getenv("VK_DRIVER_FILES"), *before = getenv("VK_ICD_FILENAMES");
    const char *more = getenv("VK_ADD_DRIVER_FILES");
    const bool by_now = now && *now, by_before = !by_now && before && *before;
    AuText names = {.memory = heap};
    Manifests m = {.names = &names};
    if (by_now || by_before)
        look_along(&m, heap, by_now ? now : before, "");
    else {
        if (more) look_along(&m, heap, more, "");
        look_everywhere(&m, heap);
    }
    if (m.count) {
        rt_text_add(why, "libvulkan.so.1 finds %s", rt_text_str(&names));
        if (m.count > NAMED) rt_text_add(why, " and %u more", m.count - NAMED);
        rt_text_add(why, ", but %s; with VK_LOADER_DEBUG=error it says why", wrong);
    } else if (by_now || by_before)
        rt_text_add(why,
                    "libvulkan.so.1 is there, but %s names no driver's manifest (.json) that "
                    "can be read",
                    by_now ? "VK_DRIVER_FILES" : "VK_ICD_FILENAMES");
    else
        rt_text_add(why, "libvulkan.so.1 is there, but no driver (ICD) is installed: none of the "
                         "folders vulkan/icd.d, as /usr/share/vulkan/icd.d, has a manifest");
    why->failed |= names.failed;
    rt_text_free(&names);
}
