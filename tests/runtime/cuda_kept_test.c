/* Machine code that is kept on disk: found again, and made again where it is damaged, foreign or for another device. */
#include "cuda_case.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The only file of the cache. */
static void kept_file(char path[512])
{
    char folder[80];
    snprintf(folder, sizeof folder, "%s/aule", cuda_cache);
    DIR *at = opendir(folder);
    assert_non_null(at);
    int count = 0;
    for (struct dirent *entry = readdir(at); entry; entry = readdir(at)) {
        if (entry->d_name[0] == '.') continue;
        snprintf(path, 512, "%s/%s", folder, entry->d_name);
        count++;
    }
    closedir(at);
    assert_int_equal(count, 1);
}

static void load_once(int links)
{
    Setup s;
    int before = cuda_mock.links;
    cuda_open(&s, "cuda", NULL);
    cuda_run(&s);
    cuda_fetch(&s);
    assert_true(case_is_right(s.c));
    cuda_close(&s);
    assert_int_equal(cuda_mock.links - before, links);
}

static void change_byte(const char *path, off_t at)
{
    char byte;
    int file = open(path, O_RDWR);
    assert_true(file >= 0);
    assert_int_equal(pread(file, &byte, 1, at), 1);
    byte = (char)(byte ^ 1);
    assert_int_equal(pwrite(file, &byte, 1, at), 1);
    close(file);
}

static void test_code_is_kept(void **state)
{
    (void)state;
    char path[512], folder[80];
    struct stat facts;
    load_once(1);
    load_once(0);
    kept_file(path);
    snprintf(folder, sizeof folder, "%s/aule", cuda_cache);
    assert_int_equal(stat(path, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0600);
    off_t whole = facts.st_size;
    assert_int_equal(stat(folder, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0700);
    static const off_t lengths[] = {0, 5, 31, 32, 40};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) { /* cut */
        assert_int_equal(truncate(path, lengths[i]), 0);
        load_once(1);
        load_once(0);
        kept_file(path);
    }
    for (off_t at = 0; at < whole; at += 11) { /* damaged */
        change_byte(path, at);
        load_once(1);
    }
    load_once(0);
    assert_int_equal(truncate(path, whole + 1), 0);
    load_once(1);
    load_once(0);
}

static void test_code_is_kept_apart(void **state)
{
    (void)state;
    load_once(1);
    cuda_mock.driver = 12090; /* another driver makes other code */
    load_once(1);
    cuda_mock.driver = 12080;
    load_once(0);
    cuda_mock.capability[0] = 100;
    load_once(1);
}

/* A folder that others can write, a file in its place, no folder at all: nothing is kept, and all works. */
static void test_no_cache(void **state)
{
    (void)state;
    char folder[80];
    snprintf(folder, sizeof folder, "%s/aule", cuda_cache);
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(chmod(folder, 0777), 0);
    load_once(1);
    load_once(1);
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(symlink("/tmp", folder), 0);
    load_once(1);
    load_once(1);
    assert_int_equal(unlink(folder), 0);
    close(open(folder, O_WRONLY | O_CREAT, 0600));
    load_once(1);
    setenv("XDG_CACHE_HOME", "/proc/none", 1);
    load_once(1);
    char *home = getenv("HOME") ? strdup(getenv("HOME")) : NULL;
    setenv("XDG_CACHE_HOME", "relative", 1); /* the base directory specification: to be ignored */
    unsetenv("HOME");
    load_once(1);
    setenv("HOME", cuda_cache, 1);
    assert_int_equal(unlink(folder), 0);
    load_once(1);
    load_once(0); /* in ~/.cache/aule */
    if (home) setenv("HOME", home, 1);
    free(home);
}

/* A program for the driver of that version, which makes other code. */
static void load_for(int driver, int links)
{
    cuda_mock.driver = driver;
    load_once(links);
}

/* There is place for two of three: the one that was used longest ago goes. */
static void test_limit(void **state)
{
    (void)state;
    char path[512], most[32];
    struct stat facts;
    load_for(12080, 1);
    kept_file(path);
    assert_int_equal(stat(path, &facts), 0);
    snprintf(most, sizeof most, "%lld", (long long)facts.st_size * 5 / 2);
    setenv("AULE_CACHE_MAX", most, 1);
    load_for(12090, 1);
    usleep(20000);
    load_for(12080, 0);
    usleep(20000);
    load_for(13000, 1);
    load_for(12080, 0);
    load_for(12090, 1);
    setenv("AULE_CACHE_MAX", "0", 1); /* nothing is read or written */
    load_for(12080, 1);
    setenv("AULE_CACHE_MAX", "1", 1); /* what is there is read; what is written does not stay */
    load_for(12080, 0);
    load_for(13000, 1);
    aule_cache_use left = {.struct_size = sizeof left};
    assert_int_equal(aule_cache_trim(UINT64_MAX, &left, NULL), AULE_OK);
    assert_int_equal(left.files, 0);
    setenv("AULE_CACHE_MAX", "much", 1);
    aule_error *error = NULL;
    uint64_t limit;
    assert_int_equal(aule_cache_limit(&limit, &error), AULE_ERROR_USAGE);
    assert_string_equal(
        aule_error_message(error),
        "AULE_CACHE_MAX is 'much', expected bytes as in 500M or 2G, or 0: keep nothing");
    aule_error_free(error);
    unsetenv("AULE_CACHE_MAX");
    assert_int_equal(aule_cache_limit(&limit, NULL), AULE_OK);
    assert_int_equal(limit, (uint64_t)1 << 30);
    cuda_mock.driver = 12080;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CUDA_TEST(test_code_is_kept),
        CUDA_TEST(test_code_is_kept_apart),
        CUDA_TEST(test_no_cache),
        CUDA_TEST(test_limit),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    cuda_remove_cache();
    return failed;
}
