/* The test harness: TEST(name) { ... }, checks that print what they saw, golden files, seeds. */
#ifndef TUTTI_TESTS_TEST_H
#define TUTTI_TESTS_TEST_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A program of tests is one .c file that includes this once. It runs all tests, or those whose
 * names contain its first argument; `--seed=N` sets test_seed (printed at the start), `--full`
 * test_full. Exit: 0 passed, 1 failed, 77 if every test that ran was skipped. */
struct test_case {
    const char *name;
    void (*run)(void);
    struct test_case *next;
};

static struct test_case *test_cases;
static struct test_case **test_last = &test_cases;
static const char *test_skip_reason;
static int test_failures; /* of the running test */
__attribute__((unused)) static uint64_t test_seed = 42;
__attribute__((unused)) static bool test_full;

#define TEST(name)                                                         \
    static void test_##name(void);                                         \
    static struct test_case test_case_##name = {#name, test_##name, NULL}; \
    __attribute__((constructor)) static void test_register_##name(void)    \
    {                                                                      \
        *test_last = &test_case_##name;                                    \
        test_last = &test_case_##name.next;                                \
    }                                                                      \
    static void test_##name(void)

/* One in how many cases is run: 1 with --full, else TUTTI_TEST_FEWER (an environment variable),
 * where each takes long: under sanitizers. */
__attribute__((unused)) static uint64_t test_fewer(void)
{
    const char *fewer = test_full ? NULL : getenv("TUTTI_TEST_FEWER");
    uint64_t share = fewer == NULL ? 1 : strtoull(fewer, NULL, 10);

    return share > 1 ? share : 1;
}

/* How many random cases to run: `full` with --full, else `some`, or fewer. */
__attribute__((unused)) static uint64_t test_count(uint64_t full, uint64_t some)
{
    uint64_t count = (test_full ? full : some) / test_fewer();

    return count > 0 ? count : 1;
}

/* Whether a case takes ten times as long as it would: under sanitizers, where one in ten cases or
 * fewer is asked for. */
__attribute__((unused)) static bool test_is_slow(void)
{
    return test_fewer() >= 10;
}

/* The same as test_count() for cases that are cheap: all of `some`, a tenth where they are slow. */
__attribute__((unused)) static uint64_t test_cheap_count(uint64_t full, uint64_t some)
{
    uint64_t count = test_full ? full : some;

    return test_is_slow() && count > 10 ? count / 10 : count;
}

/* Of a test that goes through all of its cases: whether the next is one of the fewer, drawn by the
 * seed; the first always is. */
__attribute__((unused)) static bool test_takes(void)
{
    static uint64_t asked_count;
    uint64_t share = test_fewer();
    uint64_t bits = (test_seed + asked_count) * UINT64_C(0x9e3779b97f4a7c15);

    bits = (bits ^ bits >> 32) * UINT64_C(0xd6e8feb86659fd93);
    bits ^= bits >> 32;
    return share == 1 || asked_count++ == 0 || bits % share == 0;
}

/* How many of `cases` may be asked for, where random cases must hit what they are for: of fewer
 * cases their share, halved for chance. */
__attribute__((unused)) static uint64_t test_share(uint64_t cases)
{
    uint64_t asked = test_full ? cases : test_count(cases, cases);

    return asked < cases ? asked / 2 : cases;
}

#define TEST_FAIL(...)                                  \
    do {                                                \
        test_failures++;                                \
        fprintf(stderr, "%s:%d: ", __FILE__, __LINE__); \
        fprintf(stderr, __VA_ARGS__);                   \
        fputc('\n', stderr);                            \
    } while (0)

#define CHECK(condition)                                \
    do {                                                \
        if (!(condition))                               \
            TEST_FAIL("does not hold: %s", #condition); \
    } while (0)

#define CHECK_INT(seen, expected)                                                       \
    do {                                                                                \
        int64_t seen_ = (int64_t)(seen), expected_ = (int64_t)(expected);               \
        if (seen_ != expected_)                                                         \
            TEST_FAIL("%s is %" PRId64 ", expected %" PRId64, #seen, seen_, expected_); \
    } while (0)

#define CHECK_TEXT(seen, expected)                                                 \
    do {                                                                           \
        const char *seen_ = (seen), *expected_ = (expected);                       \
        if (strcmp(seen_, expected_) != 0)                                         \
            TEST_FAIL("%s is\n\"%s\", expected\n\"%s\"", #seen, seen_, expected_); \
    } while (0)

/* Status 0, or the message is shown. */
#define CHECK_OK(call, err)                                             \
    do {                                                                \
        int status_ = (call);                                           \
        if (status_ != 0)                                               \
            TEST_FAIL("%s: status %d: %s", #call, status_, (err).text); \
    } while (0)

/* Leave the test at once after a failure that makes the rest meaningless. */
#define REQUIRE(condition)                         \
    do {                                           \
        if (!(condition)) {                        \
            TEST_FAIL("required: %s", #condition); \
            return;                                \
        }                                          \
    } while (0)

#define SKIP(reason)                 \
    do {                             \
        test_skip_reason = (reason); \
        return;                      \
    } while (0)

/* The whole file, zero-terminated, from malloc; NULL if it cannot be read. */
__attribute__((unused)) static char *test_read_file(const char *path, size_t *ret_bytes)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    size_t used = 0;
    size_t capacity = 1 << 16;

    if (file == NULL)
        return NULL;
    text = malloc(capacity + 1);
    for (size_t got = 1; text != NULL && got > 0; used += got) {
        if (used == capacity)
            text = realloc(text, (capacity *= 2) + 1);
        got = text == NULL ? 0 : fread(text + used, 1, capacity - used, file);
    }
    fclose(file);
    if (text != NULL)
        text[used] = '\0';
    if (ret_bytes != NULL)
        *ret_bytes = used;
    return text;
}

/* Compares with tests/golden/NAME; TUTTI_UPDATE_GOLDEN=1 writes it instead. */
#ifdef TUTTI_SOURCE_DIR
static int test_line_bytes(const char *line)
{
    size_t bytes = strcspn(line, "\n");

    return bytes > 1000 ? 1000 : (int)bytes;
}

/* Says where two texts part, and how they go on there. */
__attribute__((unused)) static void test_texts_part(const char *path, const char *expected,
                                                    const char *seen)
{
    int line = 1;

    while (test_line_bytes(expected) == test_line_bytes(seen) && expected[0] != '\0' &&
           strncmp(expected, seen, strcspn(expected, "\n")) == 0) {
        expected += strcspn(expected, "\n");
        expected += *expected == '\n';
        seen += strcspn(seen, "\n");
        seen += *seen == '\n';
        line++;
    }
    TEST_FAIL(
        "differs from golden file, first in line %d; TUTTI_UPDATE_GOLDEN=1 writes it anew, for "
        "'git diff' to show all:\n%s:%d\n  expected: %.*s\n  seen:     %.*s",
        line, path, line, test_line_bytes(expected), expected, test_line_bytes(seen), seen);
}

__attribute__((unused)) static void test_golden(const char *name, const char *seen)
{
    char path[1024];
    const char *update = getenv("TUTTI_UPDATE_GOLDEN");
    char *expected;
    FILE *file;

    snprintf(path, sizeof(path), "%s/tests/golden/%s", TUTTI_SOURCE_DIR, name);
    if (update != NULL && strcmp(update, "1") == 0) {
        file = fopen(path, "wb");
        if (file == NULL || fputs(seen, file) < 0)
            TEST_FAIL("cannot write %s", path);
        if (file != NULL)
            fclose(file);
        return;
    }
    expected = test_read_file(path, NULL);
    if (expected == NULL)
        TEST_FAIL("no golden file %s (TUTTI_UPDATE_GOLDEN=1 writes it)", path);
    else if (strcmp(expected, seen) != 0)
        test_texts_part(path, expected, seen);
    free(expected);
}
#endif

int main(int argc, char **argv); /* by another name where tests are one program */
int main(int argc, char **argv)
{
    const char *filter = "";
    int failed = 0;
    int passed = 0;
    int skipped = 0;

    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--seed=", 7) == 0)
            test_seed = strtoull(argv[i] + 7, NULL, 0);
        else if (strcmp(argv[i], "--full") == 0)
            test_full = true;
        else
            filter = argv[i];
    }
    test_full = test_full || getenv("TUTTI_TEST_FULL") != NULL;
    printf("seed %" PRIu64 "\n", test_seed);
    for (struct test_case *test = test_cases; test != NULL; test = test->next) {
        if (strstr(test->name, filter) == NULL)
            continue;
        test_failures = 0;
        test_skip_reason = NULL;
        fflush(stdout);
        test->run();
        failed += test_failures > 0;
        skipped += test_failures == 0 && test_skip_reason != NULL;
        passed += test_failures == 0 && test_skip_reason == NULL;
        printf("%s %s%s%s\n",
               test_failures > 0          ? "FAILED "
               : test_skip_reason != NULL ? "skipped"
                                          : "ok     ",
               test->name, test_skip_reason != NULL ? ": " : "",
               test_skip_reason != NULL ? test_skip_reason : "");
    }
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    if (failed > 0)
        return 1;
    return passed == 0 && skipped > 0 ? 77 : 0;
}

#endif
