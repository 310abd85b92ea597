/* The table of backends: each is found by its name, says what it is, and has a suite of the
 * conformance tests. */
#include <unistd.h>

#include "runtime/backend.h"
#include "runtime/status.h"
#include "runtime/threads.h"
#include "tests/test.h"

TEST(each_is_found_by_its_name)
{
    size_t count;
    const struct tutti_backend_kind *kinds = tutti_backend_kinds(&count);

    CHECK(count >= 4);
    for (size_t i = 0; i < count; i++) {
        CHECK(tutti_backend_kind_find(kinds[i].name) == &kinds[i]);
        CHECK(kinds[i].help != NULL && kinds[i].help[0] != '\0');
        CHECK(!kinds[i].simulated || !kinds[i].grouped);
        CHECK(!kinds[i].launched || kinds[i].grouped);
    }
    CHECK(tutti_backend_kind_find("thread") == NULL);
    CHECK(tutti_backend_kind_find("") == NULL);
}

TEST(each_has_a_suite_of_conformance)
{
    static const char *const folders[] = {"runtime", "sim"};
    size_t count;
    const struct tutti_backend_kind *kinds = tutti_backend_kinds(&count);

    for (size_t i = 0; i < count; i++) {
        bool found = false;

        for (size_t f = 0; f < sizeof(folders) / sizeof(folders[0]); f++) {
            char path[512];

            (void)snprintf(path, sizeof(path), "%s/tests/%s/%s_conformance_test.c",
                           TUTTI_SOURCE_DIR, folders[f], kinds[i].name);
            found = found || access(path, R_OK) == 0;
        }
        if (!found)
            TEST_FAIL("backend '%s' has no NAME_conformance_test.c", kinds[i].name);
    }
}

TEST(a_backend_has_the_name_of_its_kind)
{
    const struct tutti_threads_opts opts = {.size = sizeof(opts)};
    struct tutti_backend *backend = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_threads_open(&opts, &backend, &err), err);
    REQUIRE(backend != NULL);
    CHECK(tutti_backend_kind_find(backend->ops->name) != NULL);
    tutti_backend_close(backend);
}
