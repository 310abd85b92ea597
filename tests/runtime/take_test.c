/* Structs that callers fill tell their size: older callers are served, and none is guessed at. */
#include "runtime/backend.h"
#include "runtime/group_tcp.h"
#include "runtime/status.h"
#include "runtime/tcp.h"
#include "runtime/threads.h"
#include "sim/predict.h"
#include "sim/shaper.h"
#include "tests/test.h"

/* A struct of wishes, in its first and in its second version. */
struct first {
    size_t size;
    uint64_t bytes;
};

struct second {
    size_t size;
    uint64_t bytes;
    uint64_t more;
};

enum { FIRST_BYTES = TUTTI_BYTES_TO(struct second, bytes) };

TEST(an_older_caller_has_0_in_what_came_later)
{
    struct first given = {.size = sizeof(given), .bytes = 7};
    struct second own = {.more = 9};
    struct tutti_err err;

    CHECK_OK(tutti_take("second", &own, sizeof(own), &given, FIRST_BYTES, &err), err);
    CHECK_INT(own.bytes, 7);
    CHECK_INT(own.more, 0);
    CHECK_INT(own.size, sizeof(own));
}

TEST(a_newer_caller_is_served_where_it_asks_for_nothing_new)
{
    struct second given = {.size = sizeof(given), .bytes = 7};
    struct first own;
    struct tutti_err err;

    CHECK_OK(tutti_take("first", &own, sizeof(own), &given, FIRST_BYTES, &err), err);
    CHECK_INT(own.bytes, 7);
    given.more = 1;
    CHECK_INT(tutti_take("first", &own, sizeof(own), &given, FIRST_BYTES, &err), -TUTTI_ELACK);
    CHECK_TEXT(err.text, "struct first of 24 bytes asks for more than this library knows (0 after "
                         "16 bytes)");
}

TEST(no_size_is_refused_and_says_what_to_do)
{
    struct second given = {.bytes = 7};
    struct second own = {.bytes = 3};
    struct tutti_err err;

    CHECK_INT(tutti_take("second", &own, sizeof(own), &given, FIRST_BYTES, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text,
               "struct second has size 0 (at least 16: set .size to sizeof(struct second))");
    given.size = FIRST_BYTES - 1;
    CHECK_INT(tutti_take("second", &own, sizeof(own), &given, FIRST_BYTES, &err), -TUTTI_EINVAL);
    CHECK_INT(tutti_take("second", &own, sizeof(own), NULL, FIRST_BYTES, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "no struct second is given");
    CHECK_INT(own.bytes, 3);
}

static void refused(int status, const char *name, const struct tutti_err *err)
{
    char text[128];

    snprintf(text, sizeof(text), "struct %s has size 0 (at least ", name);
    CHECK_INT(status, -TUTTI_EINVAL);
    if (strncmp(err->text, text, strlen(text)) != 0)
        TEST_FAIL("\"%s\", expected \"%s...\"", err->text, text);
}

/* Whoever takes such a struct looks at its size first. */
TEST(every_call_with_options_refuses_those_without_a_size)
{
    struct tutti_answer answer;
    struct tutti_schedule *schedule;
    struct tutti_backend *backend;
    struct tutti_shaper *shaper;
    struct tutti_group *group;
    const struct tutti_protocol *protocol;
    char address[TUTTI_GROUP_TCP_ADDRESS_BYTES];
    struct tutti_err err;
    int fd;

    refused(tutti_predict(&(struct tutti_ask){.topo = NULL}, &answer, &err), "tutti_ask", &err);
    refused(tutti_predict_schedule(&(struct tutti_ask){.topo = NULL}, &schedule, &err), "tutti_ask",
            &err);
    refused(tutti_ask_protocol(&(struct tutti_ask){.topo = NULL}, "ll", &protocol, &err),
            "tutti_ask", &err);
    refused(tutti_sim_open(&(struct tutti_sim_opts){.topo = NULL}, &backend, &err),
            "tutti_sim_opts", &err);
    refused(tutti_sim_shaper_open(&(struct tutti_sim_opts){.topo = NULL}, &shaper, &err),
            "tutti_sim_opts", &err);
    refused(tutti_threads_open(&(struct tutti_threads_opts){.pin = true}, &backend, &err),
            "tutti_threads_opts", &err);
    refused(tutti_tcp_open(&(struct tutti_tcp_opts){.pin = true}, &backend, &err), "tutti_tcp_opts",
            &err);
    refused(tutti_group_tcp_open(&(struct tutti_group_tcp_opts){.count = 1}, &group, &err),
            "tutti_group_tcp_opts", &err);
    refused(tutti_group_tcp_listen(&(struct tutti_group_tcp_opts){.count = 1}, &fd, address, &err),
            "tutti_group_tcp_opts", &err);
}

TEST(a_play_without_a_size_is_refused)
{
    struct tutti_backend *backend;
    struct tutti_played played;
    struct tutti_err err;

    CHECK_OK(tutti_threads_open(NULL, &backend, &err), err);
    refused(tutti_backend_play(backend, &(struct tutti_play){.iteration_count = 1}, &played, &err),
            "tutti_play", &err);
    tutti_backend_close(backend);
}
