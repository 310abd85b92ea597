/* Every allocation made to fail once: `call` must end with a clean error and leave nothing behind.
 *
 *     #include "tests/alloc_fail.h"
 *     ALLOC_FAIL_EACH(story(&err), err);
 *
 * runs story() again and again; the k-th time its k-th allocation fails. A run in which one failed
 * must return -TUTTI_ENOMEM with a message in `err`; the first run with fewer than k allocations
 * must return 0, and is the last. Where fewer cases are asked for (TUTTI_TEST_FEWER), allocations
 * are passed over at random. After every run what was taken must have been given back. The
 * program is linked with --wrap for each function below (tests/alloc_fail.cmake sees to it for
 * every test that includes this), so sanitizers keep working. */
#ifndef TUTTI_TESTS_ALLOC_FAIL_H
#define TUTTI_TESTS_ALLOC_FAIL_H

#include <errno.h>
#include <pthread.h>

#include "runtime/status.h"
#include "tests/test.h"

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
char *__real_strdup(const char *text);
FILE *__real_open_memstream(char **text, size_t *bytes);
void __real_free(void *block);

void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
char *__wrap_strdup(const char *text);
FILE *__wrap_open_memstream(char **text, size_t *bytes);
void __wrap_free(void *block);

/* What was taken and not given back, while `armed`. Blocks that libc took for itself (the text of a
 * memstream) are not in it, and freeing them is no matter. */
enum { ALLOC_FAIL_LIVE_MAX = 1 << 16 };

static struct {
    pthread_mutex_t lock; /* guards all of it */
    bool armed;
    bool forbidden;   /* any call ends the program */
    uint64_t count;   /* allocations since arming */
    uint64_t fail_at; /* the number of the one that fails, from 1; 0: none */
    bool failed;
    bool overflow;
    size_t live_count;
    void *live[ALLOC_FAIL_LIVE_MAX];
} alloc_fail = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Whether this allocation is the one to fail. */
static bool alloc_fail_now(void)
{
    bool fail;

    if (alloc_fail.forbidden)
        abort();
    pthread_mutex_lock(&alloc_fail.lock);
    fail = alloc_fail.armed && ++alloc_fail.count == alloc_fail.fail_at;
    alloc_fail.failed = alloc_fail.failed || fail;
    pthread_mutex_unlock(&alloc_fail.lock);
    if (fail)
        errno = ENOMEM;
    return fail;
}

static void alloc_fail_forget(const void *block)
{
    size_t i;

    if (alloc_fail.forbidden)
        abort();
    pthread_mutex_lock(&alloc_fail.lock);
    i = alloc_fail.live_count;
    while (i > 0 && alloc_fail.live[i - 1] != block)
        i--;
    if (i > 0)
        alloc_fail.live[i - 1] = alloc_fail.live[--alloc_fail.live_count];
    pthread_mutex_unlock(&alloc_fail.lock);
}

static void *alloc_fail_note(void *block)
{
    pthread_mutex_lock(&alloc_fail.lock);
    if (alloc_fail.armed && block != NULL) {
        if (alloc_fail.live_count < ALLOC_FAIL_LIVE_MAX)
            alloc_fail.live[alloc_fail.live_count++] = block;
        else
            alloc_fail.overflow = true;
    }
    pthread_mutex_unlock(&alloc_fail.lock);
    return block;
}

void *__wrap_malloc(size_t bytes)
{
    return alloc_fail_now() ? NULL : alloc_fail_note(__real_malloc(bytes));
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return alloc_fail_now() ? NULL : alloc_fail_note(__real_calloc(count, bytes));
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    return alloc_fail_now() ? NULL : alloc_fail_note(__real_aligned_alloc(alignment, bytes));
}

void *__wrap_realloc(void *old, size_t bytes)
{
    if (alloc_fail_now())
        return NULL;
    /* Before, not after: another thread may be given the same address meanwhile. */
    if (old != NULL)
        alloc_fail_forget(old);
    return alloc_fail_note(__real_realloc(old, bytes));
}

char *__wrap_strdup(const char *text)
{
    return alloc_fail_now() ? NULL : alloc_fail_note(__real_strdup(text));
}

FILE *__wrap_open_memstream(char **text, size_t *bytes)
{
    return alloc_fail_now() ? NULL : __real_open_memstream(text, bytes);
}

void __wrap_free(void *block)
{
    if (block != NULL)
        alloc_fail_forget(block);
    __real_free(block);
}

/* From now on no allocation and no free may be called at all, or again; with no other thread. */
static inline void alloc_fail_forbid(bool forbidden)
{
    alloc_fail.forbidden = forbidden;
}

static inline void alloc_fail_arm(uint64_t fail_at)
{
    pthread_mutex_lock(&alloc_fail.lock);
    alloc_fail.armed = true;
    alloc_fail.count = 0;
    alloc_fail.fail_at = fail_at;
    alloc_fail.failed = false;
    alloc_fail.overflow = false;
    alloc_fail.live_count = 0;
    pthread_mutex_unlock(&alloc_fail.lock);
}

/* Judges the run that has just ended with `status`; false: no further runs. */
static inline bool alloc_fail_judge(const char *call, int status, const char *message)
{
    pthread_mutex_lock(&alloc_fail.lock);
    alloc_fail.armed = false;
    pthread_mutex_unlock(&alloc_fail.lock);
    if (alloc_fail.overflow) {
        TEST_FAIL("%s: more than %d blocks at a time", call, ALLOC_FAIL_LIVE_MAX);
        return false;
    }
    if (alloc_fail.live_count > 0) {
        TEST_FAIL("%s: allocation %" PRIu64 " %s, and %zu blocks stay behind", call,
                  alloc_fail.failed ? alloc_fail.fail_at : alloc_fail.count,
                  alloc_fail.failed ? "fails" : "was the last", alloc_fail.live_count);
        return false;
    }
    if (!alloc_fail.failed) {
        if (status != 0)
            TEST_FAIL("%s: status %d with all the memory it wants: %s", call, status, message);
        if (alloc_fail.count == 0)
            TEST_FAIL("%s: takes no memory, so that nothing has been tested", call);
        return false;
    }
    if (status != -TUTTI_ENOMEM || message[0] == '\0') {
        TEST_FAIL("%s: allocation %" PRIu64 " fails, and the status is %d with the message '%s'",
                  call, alloc_fail.fail_at, status, message);
        return false;
    }
    return true;
}

/* The number of the next allocation that is to fail. */
static inline uint64_t alloc_fail_next(uint64_t at)
{
    uint64_t most = 1 + test_fewer() / 3;

    return at + 1 + (test_seed + at) * UINT64_C(0x9e3779b97f4a7c15) / 65536 % most;
}

/* `call`: an int expression that writes its message to `err`, a struct tutti_err. */
#define ALLOC_FAIL_EACH(call, err)                              \
    do {                                                        \
        uint64_t at_ = 0;                                       \
        int status_;                                            \
        do {                                                    \
            (err).text[0] = '\0';                               \
            at_ = alloc_fail_next(at_);                         \
            alloc_fail_arm(at_);                                \
            status_ = (call);                                   \
        } while (alloc_fail_judge(#call, status_, (err).text)); \
    } while (0)

#endif
