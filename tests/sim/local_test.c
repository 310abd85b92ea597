/* A machine as its ranks feel it: times worked out by hand, and its text. */
#include "sim/local.h"

#include <math.h>

#include "runtime/coll.h"
#include "runtime/schedule.h"
#include "runtime/status.h"
#include "tests/test.h"

static void set(struct tutti_local *local, enum tutti_local_parameter parameter, double value)
{
    local->values[parameter] = (struct tutti_local_value){.value = value, .low = NAN, .high = NAN};
}

/* Nothing stays in a cache, nothing goes past one: to read takes 0.1 ns a byte, to write 0.2 ns, to
 * begin 1 us, a hop 2 us, and all else next to nothing. */
static struct tutti_local plain(void)
{
    struct tutti_local local = tutti_local_guess();

    for (int p = 0; p < TUTTI_LOCAL_COUNT; p++)
        set(&local, (enum tutti_local_parameter)p, 1e9);
    local.processor_count = 2;
    local.past_cache_bytes = UINT64_C(1) << 50;
    set(&local, TUTTI_LOCAL_LAUNCH, 1);
    set(&local, TUTTI_LOCAL_LAUNCH_ALONE, 0.5);
    set(&local, TUTTI_LOCAL_HOP, 2);
    set(&local, TUTTI_LOCAL_STEP, 1e-9);
    set(&local, TUTTI_LOCAL_READ_MEMORY, 10);
    set(&local, TUTTI_LOCAL_WRITE_MEMORY, 5);
    set(&local, TUTTI_LOCAL_OWN_CACHE, 1);
    set(&local, TUTTI_LOCAL_SHARED_CACHE, 1);
    set(&local, TUTTI_LOCAL_TOGETHER, 1);
    return local;
}

/* In us. Frees the schedule. */
static double time_of(const struct tutti_local *local, struct tutti_schedule *schedule)
{
    struct tutti_local_play *play = NULL;
    struct tutti_err err = {.text = ""};
    tutti_ps ps = 0;

    CHECK_OK(tutti_local_play_open(schedule, local->processor_count, &play, &err), err);
    CHECK_OK(tutti_local_time(play, local, &ps, &err), err);
    tutti_local_play_close(play);
    tutti_schedule_free(schedule);
    return (double)ps / (double)TUTTI_PS_PER_US;
}

static double predict(const struct tutti_local *local, uint32_t rank_count,
                      enum tutti_collective collective, const char *algorithm, uint64_t count)
{
    struct tutti_coll_params params = {
        .collective = collective, .dtype = TUTTI_UINT8, .op = TUTTI_SUM, .count = count};
    struct tutti_shape shape = tutti_shape_flat(rank_count);
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {.text = ""};

    CHECK_OK(tutti_coll_generate(algorithm, &params, &shape, &schedule, &err), err);
    return time_of(local, schedule);
}

#define CHECK_US(seen, expected)                                                         \
    do {                                                                                 \
        double seen_ = (seen);                                                           \
        if (seen_ < (expected)-0.01 || seen_ > (expected) + 0.01)                        \
            TEST_FAIL("%s is %.3f us, expected %.3f", #seen, seen_, (double)(expected)); \
    } while (0)

TEST(a_rank_alone_reads_and_writes)
{
    struct tutti_local local = plain();

    CHECK_US(predict(&local, 1, TUTTI_ALLREDUCE, "ring", 8000000), 0.5 + 800 + 1600);
}

/* Two halves are read, and the sum written here and there. The last hop tells the sender that its
 * message is gone. */
TEST(a_ring_of_two_writes_its_results_to_both_outputs)
{
    struct tutti_local local = plain();

    CHECK_US(predict(&local, 2, TUTTI_ALLREDUCE, "ring", 8000000), 1 + 2 + 800 + 1600 + 2 + 2);
    CHECK_US(predict(&local, 2, TUTTI_ALLREDUCE, "two-shot", 8000000), 1 + 2 + 800 + 1600 + 2 + 2);
}

TEST(what_is_written_again_to_push_costs_that_too)
{
    struct tutti_local local = plain();

    set(&local, TUTTI_LOCAL_PUSH, 4);
    CHECK_US(predict(&local, 2, TUTTI_ALLREDUCE, "ring", 8000000),
             1 + 2 + 800 + 1600 + 1000 + 2 + 2);
}

/* Binomial: rank 0 reduces all, then rank 1 copies all. */
TEST(ranks_that_wait_for_each_other_add_up)
{
    struct tutti_local local = plain();

    CHECK_US(predict(&local, 2, TUTTI_ALLREDUCE, "binomial", 1000000),
             1 + 2 + (200 + 200) + 2 + (100 + 200) + 2);
}

/* Both read both inputs; memory moves 1 + 1 + 2 bytes for each byte of the result of each rank. */
TEST(what_all_share_is_shared)
{
    struct tutti_local local = plain();

    CHECK_US(predict(&local, 2, TUTTI_ALLREDUCE, "recursive-doubling", 1000000), 1 + 2 + 400 + 2);
    set(&local, TUTTI_LOCAL_ALL_MEMORY, 10);
    CHECK_US(predict(&local, 2, TUTTI_ALLREDUCE, "recursive-doubling", 1000000),
             1 + 2 + 2 * 400 + 2);
}

TEST(results_past_the_cache_cost_by_themselves)
{
    struct tutti_local local = plain();

    local.past_cache_bytes = 500000;
    set(&local, TUTTI_LOCAL_COPY_PAST, 2);
    set(&local, TUTTI_LOCAL_REDUCE_PAST, 4);
    CHECK_US(predict(&local, 1, TUTTI_ALLREDUCE, "ring", 1000000), 0.5 + 100 + 500);
    CHECK_US(predict(&local, 2, TUTTI_ALLREDUCE, "ring", 1000000), 1 + 2 + 100 + 2 * 125 + 2 + 2);
}

/* 100 KB of a cache of 1 MiB, of which a rank reads and writes 200 KB again and again. */
TEST(what_a_cache_keeps_is_read_there)
{
    struct tutti_local local = plain();

    set(&local, TUTTI_LOCAL_OWN_CACHE, 1024);
    set(&local, TUTTI_LOCAL_READ_OWN, 100);
    set(&local, TUTTI_LOCAL_WRITE_OWN, 50);
    CHECK_US(predict(&local, 1, TUTTI_ALLREDUCE, "ring", 100000), 0.5 + 1 + 2);
    /* Rank 1's copy of what rank 0 has written, into bytes that nobody else looks at; and rank 0
     * writes what rank 1 has read. */
    set(&local, TUTTI_LOCAL_READ_OTHER, 20);
    set(&local, TUTTI_LOCAL_WRITE_OTHER, 25);
    CHECK_US(predict(&local, 2, TUTTI_ALLREDUCE, "binomial", 100000),
             1 + 2 + (2 + 4) + 2 + (5 + 2) + 2);
}

/* Caches of a few bytes each, and one that keeps all: rank 0 adds two inputs, and rank 1 copies
 * what is then no longer in rank 0's own cache, however dear that is. */
TEST(what_another_processor_has_cast_out_has_a_rate_of_its_own)
{
    struct tutti_local local = plain();

    set(&local, TUTTI_LOCAL_SHARED_CACHE, 1e9);
    set(&local, TUTTI_LOCAL_READ_SHARED, 10);
    set(&local, TUTTI_LOCAL_WRITE_SHARED, 5);
    set(&local, TUTTI_LOCAL_READ_OTHER, 0.001);
    set(&local, TUTTI_LOCAL_READ_CAST, 0.5);
    set(&local, TUTTI_LOCAL_WRITE_CAST, 4); /* rank 0 what rank 1 has copied the time before */
    CHECK_US(predict(&local, 2, TUTTI_ALLREDUCE, "binomial", 1000000),
             1 + 2 + (200 + 250) + 2 + (2000 + 200) + 2);
}

/* Rank 0 has touched 3 bytes for each byte of its sum, so that a cache of 1.5 times the sum still
 * has the second half of it when rank 1 comes to read: not all, and not nothing. */
TEST(what_was_written_last_is_what_a_cache_still_has)
{
    struct tutti_local local = plain();
    double none_us;
    double half_us;

    set(&local, TUTTI_LOCAL_SHARED_CACHE, 1e9);
    set(&local, TUTTI_LOCAL_READ_SHARED, 1e9);
    set(&local, TUTTI_LOCAL_READ_OTHER, 1);
    none_us = predict(&local, 2, TUTTI_ALLREDUCE, "binomial", 1000000);
    set(&local, TUTTI_LOCAL_OWN_CACHE, 1500);
    half_us = predict(&local, 2, TUTTI_ALLREDUCE, "binomial", 1000000) - none_us;
    if (half_us < 450 || half_us > 550)
        TEST_FAIL("what is still in the other's cache took %g us, expected about 500", half_us);
}

/* Two threads of one core: both work for as long as before, at half the speed; who works while the
 * other waits does not notice. */
TEST(who_works_while_others_do_may_be_slower)
{
    struct tutti_local local = plain();

    set(&local, TUTTI_LOCAL_TOGETHER, 0.5);
    CHECK_US(predict(&local, 2, TUTTI_ALLREDUCE, "recursive-doubling", 1000000),
             1 + 2 + 2 * 400 + 2);
    CHECK_US(predict(&local, 2, TUTTI_ALLREDUCE, "binomial", 1000000),
             1 + 2 + (200 + 200) + 2 + (100 + 200) + 2);
}

TEST(ranks_of_one_processor_take_turns)
{
    struct tutti_local local = plain();

    local.processor_count = 1;
    CHECK_US(predict(&local, 2, TUTTI_ALLREDUCE, "recursive-doubling", 1000000),
             1 + 2 + 2 * 400 + 2);
}

TEST(the_same_machine_gives_the_same_time)
{
    struct tutti_local local = tutti_local_guess();
    static const char *const names[] = {"ring", "binomial", "double-binary-tree", "one-shot"};

    local.processor_count = 2;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        double once = predict(&local, 4, TUTTI_ALLREDUCE, names[i], 1 << 20);

        CHECK(once > 0);
        CHECK(fabs(once - predict(&local, 4, TUTTI_ALLREDUCE, names[i], 1 << 20)) < 1e-9);
        CHECK(predict(&local, 4, TUTTI_ALLREDUCE, names[i], 1 << 22) > once);
    }
}

/* Between processes a message is copied to the system and out of it, 64 KiB at a time, here at 0.5
 * and 0.25 ns a byte; what is read and written is no matter. */
static struct tutti_local divided(void)
{
    struct tutti_local local = plain();

    local.process_count = 2;
    set(&local, TUTTI_LOCAL_READ_MEMORY, 1e9);
    set(&local, TUTTI_LOCAL_WRITE_MEMORY, 1e9);
    set(&local, TUTTI_LOCAL_SEND_NEAR, 2);
    set(&local, TUTTI_LOCAL_SEND_FAR, 1);
    set(&local, TUTTI_LOCAL_TAKE_NEAR, 4);
    set(&local, TUTTI_LOCAL_TAKE_FAR, 4);
    set(&local, TUTTI_LOCAL_CALL, 1e-9);
    return local;
}

/* 640000 bytes are 9 pieces of 65536 and one of 50176. Who receives is faster, so that at the end
 * the last piece is left. */
TEST(processes_send_and_receive_at_the_same_time)
{
    struct tutti_local local = divided();
    double sent_us = 640000 * 0.5e-3;

    CHECK_US(predict(&local, 2, TUTTI_BROADCAST, "binomial", 640000),
             1 + sent_us + 2 + 50176 * 0.25e-3);
    set(&local, TUTTI_LOCAL_NEAR, 1); /* all of it is far */
    CHECK_US(predict(&local, 2, TUTTI_BROADCAST, "binomial", 640000),
             1 + 2 * sent_us + 2 + 50176 * 0.25e-3);
}

/* Each has both to do, and does one thing at a time: sends one piece, then takes what has come. */
TEST(who_sends_and_receives_does_one_after_the_other)
{
    struct tutti_local local = divided();
    double us = predict(&local, 2, TUTTI_ALLREDUCE, "recursive-doubling", 640000);

    if (us < 1 + 640000 * 0.75e-3 || us > 1 + 2 + 640000 * 0.75e-3 + 65536 * 0.5e-3)
        TEST_FAIL("%g us", us);
}

/* Pages are handed over up to a MiB in one call, before anything is received; who receives them
 * reads them where they lie, as fast as the system reads memory. */
TEST(what_is_lent_is_copied_once_by_who_receives_it)
{
    static const char text[] = "schedule two\ncontract custom uint8 sum count 0\n"
                               "ranks 2\nlanes 1\nslots 8\nin 640000 B\nout 640000 B\n"
                               "rank 0 lane 0\n"
                               "  SEND in+0 640000 B to 1\n"
                               "  RECV out+0 640000 B from 1\n"
                               "rank 1 lane 0\n"
                               "  SEND in+0 640000 B to 0\n"
                               "  RECV out+0 640000 B from 0\n";
    struct tutti_local local = divided();
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {.text = ""};
    double taken_us = 640000 * (0.25e-3 + 0.2e-3);

    snprintf(local.backend, sizeof(local.backend), "tcp");
    set(&local, TUTTI_LOCAL_LEND, 10);
    set(&local, TUTTI_LOCAL_TAKE_LENT, 4);
    set(&local, TUTTI_LOCAL_TAKE_MEMORY, 5);
    CHECK_US(predict(&local, 2, TUTTI_BROADCAST, "binomial", 640000),
             1 + 65536 * 0.1e-3 + 2 + taken_us + 2);
    CHECK_OK(tutti_schedule_parse("text", text, strlen(text), &schedule, &err), err);
    CHECK_US(time_of(&local, schedule), 1 + 640000 * 0.1e-3 + taken_us + 2);
    /* Less is copied to the system. */
    CHECK_US(predict(&local, 2, TUTTI_BROADCAST, "binomial", 60000),
             1 + 60000 * 0.5e-3 + 2 + 60000 * 0.25e-3);
}

/* A packet of loopback has 64 KiB with all heads, so that a message of 64 KiB is two of them, and
 * each costs a call here and there; what a library hands over as it likes is one. */
TEST(a_message_of_64_KiB_is_no_packet)
{
    struct tutti_local local = divided();

    set(&local, TUTTI_LOCAL_CALL, 5);
    CHECK_US(predict(&local, 2, TUTTI_BROADCAST, "binomial", 65536),
             1 + 5 + 65536 * 0.5e-3 + 2 + 5 + 65536 * 0.25e-3);
    snprintf(local.backend, sizeof(local.backend), "tcp");
    CHECK_US(predict(&local, 2, TUTTI_BROADCAST, "binomial", 65408),
             1 + 5 + 65408 * 0.5e-3 + 2 + 5 + 65408 * 0.25e-3);
    CHECK_US(predict(&local, 2, TUTTI_BROADCAST, "binomial", 65536),
             1 + 5 + 65408 * 0.5e-3 + 2 + 2 * 5 + 65536 * 0.25e-3);
}

/* Where a library reads the sender's memory, nobody sends: both ways at once take no longer than
 * one. */
TEST(who_receives_may_copy_straight_from_the_sender)
{
    struct tutti_local local = divided();

    local.direct = true;
    CHECK_US(predict(&local, 2, TUTTI_BROADCAST, "binomial", 640000), 1 + 2 + 640000 * 0.25e-3);
    CHECK_US(predict(&local, 2, TUTTI_ALLREDUCE, "recursive-doubling", 640000),
             1 + 2 + 640000 * 0.25e-3);
    set(&local, TUTTI_LOCAL_READ_MEMORY, 10); /* what is read there is no longer free */
    CHECK_US(predict(&local, 2, TUTTI_BROADCAST, "binomial", 640000),
             1 + 2 + 640000 * (0.25e-3 + 0.1e-3));
}

/* An empty message comes before a real one: it is taken like any other, and nobody finds it again
 * where the next one should be. */
TEST(an_empty_message_between_processes_is_taken_once)
{
    static const char text[] = "schedule two\ncontract custom uint8 sum count 0\n"
                               "ranks 2\nlanes 1\nslots 8\nin 640000 B\nout 640000 B\n"
                               "rank 0 lane 0\n"
                               "  SEND in+0 0 B to 1\n"
                               "  SEND in+0 640000 B to 1\n"
                               "rank 1 lane 0\n"
                               "  RECV out+0 0 B from 0\n"
                               "  RECV out+0 640000 B from 0\n";

    for (int direct = 0; direct <= 1; direct++) {
        struct tutti_local local = divided();
        struct tutti_schedule *schedule = NULL;
        struct tutti_err err = {.text = ""};

        local.direct = direct;
        CHECK_OK(tutti_schedule_parse("text", text, strlen(text), &schedule, &err), err);
        CHECK_US(time_of(&local, schedule),
                 direct ? 1 + 2 + 640000 * 0.25e-3 : 1 + 640000 * 0.5e-3 + 2 + 50176 * 0.25e-3);
    }
}

/* Ranks 0 and 1 of four are of one process, and meet in memory. */
TEST(ranks_of_one_process_need_no_system)
{
    struct tutti_local local = divided();
    double apart_us, together_us;

    local.processor_count = 4;
    local.process_count = 4;
    apart_us = predict(&local, 4, TUTTI_ALLREDUCE, "ring", 1 << 20);
    local.process_count = 2;
    together_us = predict(&local, 4, TUTTI_ALLREDUCE, "ring", 1 << 20);
    local.process_count = 1;
    CHECK(together_us < apart_us);
    CHECK(predict(&local, 4, TUTTI_ALLREDUCE, "ring", 1 << 20) < together_us);
}

/* ---- its text -------------------------------------------------------------------------------- */

static void refused(const char *text, const char *message)
{
    struct tutti_local local;
    struct tutti_err err = {.text = ""};

    CHECK_INT(tutti_local_parse("f", text, strlen(text), &local, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, message);
}

TEST(what_is_written_is_read)
{
    struct tutti_local local = tutti_local_guess();
    struct tutti_local again;
    struct tutti_err err = {.text = ""};
    char *text = NULL;
    char *other = NULL;

    snprintf(local.machine, sizeof(local.machine), "a machine of mine");
    local.values[TUTTI_LOCAL_HOP] = (struct tutti_local_value){.value = 0.2, .low = 0.1, .high = 1};
    local.direct = true;
    local.apart_ns = 215.5;
    CHECK_OK(tutti_local_print(&local, &text, &err), err);
    CHECK(strstr(text, "\nmachine a machine of mine\n") != NULL);
    CHECK(strstr(text, "\nhop_us 0.2 0.1 1\n") != NULL);
    CHECK(strstr(text, "\ncopies 1\n") != NULL);
    CHECK(strstr(text, "\napart_ns 215.5\n") != NULL);
    CHECK_OK(tutti_local_parse("f", text, strlen(text), &again, &err), err);
    CHECK_OK(tutti_local_print(&again, &other, &err), err);
    CHECK_TEXT(other, text);
    free(text);
    free(other);
}

TEST(a_value_that_no_text_may_hold_is_brought_within_what_it_may)
{
    CHECK(tutti_local_within(TUTTI_LOCAL_HOP, 1e-12) == 1e-9);
    CHECK(tutti_local_within(TUTTI_LOCAL_HOP, 1e300 * 1e300) == 1e5);
    CHECK(tutti_local_within(TUTTI_LOCAL_PUSH, 1e-12) == 1e-3);
    CHECK(tutti_local_within(TUTTI_LOCAL_PUSH, 62.5) == 62.5);
    CHECK(isnan(tutti_local_within(TUTTI_LOCAL_PUSH, NAN)));
}

/* What is read of its file without the lines of some parameters. */
static struct tutti_local older(const struct tutti_local *local, const char *const *names,
                                size_t count)
{
    struct tutti_local again = {.processor_count = 0};
    struct tutti_err err = {.text = ""};
    char *text = NULL;

    CHECK_OK(tutti_local_print(local, &text, &err), err);
    for (size_t i = 0; text != NULL && i < count; i++) {
        char *line = strstr(text, names[i]);

        CHECK(line != NULL);
        if (line != NULL)
            memmove(line, strchr(line, '\n') + 1, strlen(strchr(line, '\n')));
    }
    if (text != NULL)
        CHECK_OK(tutti_local_parse("f", text, strlen(text), &again, &err), err);
    free(text);
    return again;
}

/* From before there was a rate for what has been cast out. */
TEST(an_older_calibration_reads_what_was_cast_out_as_all_that_is_shared)
{
    static const char *const names[] = {"read_cast_GBps", "write_cast_GBps", "together_ratio"};
    struct tutti_local local = tutti_local_guess();
    struct tutti_local again;

    local.values[TUTTI_LOCAL_READ_SHARED].value = 31;
    again = older(&local, names, sizeof(names) / sizeof(names[0]));
    CHECK(fabs(again.values[TUTTI_LOCAL_READ_CAST].value - 31) < 1e-9);
    CHECK(again.values[TUTTI_LOCAL_READ_CAST].open);
    CHECK(fabs(again.values[TUTTI_LOCAL_TOGETHER].value - 1) < 1e-9);
}

/* And from before what is lent had rates: as what is far, with a call for each 64 KiB. */
TEST(an_older_calibration_lends_as_it_sends_what_is_far)
{
    static const char *const names[] = {"lend_GBps", "take_lent_GBps", "take_memory_GBps"};
    struct tutti_local local = tutti_local_guess();
    struct tutti_local again;

    snprintf(local.backend, sizeof(local.backend), "tcp");
    local.process_count = 2;
    local.values[TUTTI_LOCAL_SEND_FAR].value = 4;
    local.values[TUTTI_LOCAL_CALL].value = 65.536 / 4;
    again = older(&local, names, sizeof(names) / sizeof(names[0]));
    CHECK(fabs(again.values[TUTTI_LOCAL_LEND].value - 2) < 1e-9);
    CHECK(again.values[TUTTI_LOCAL_LEND].open);
    CHECK(fabs(again.values[TUTTI_LOCAL_TAKE_MEMORY].value -
               local.values[TUTTI_LOCAL_READ_MEMORY].value) < 1e-9);
}

TEST(what_is_no_machine_is_refused_in_one_line)
{
    refused("", "f: empty (tutti local 1, as 'tutti calibrate -B' writes)");
    refused("calibration x\n", "f: line 1: 'calibration' is not how the calibration of a machine "
                               "begins (tutti local 1, as 'tutti calibrate -B' writes)");
    refused("tutti local 1\nbackend threads\nranks 2\nprocessors 2\nprocesses 1\n",
            "f: 'past_cache_bytes' is missing (all that 'tutti calibrate -B' writes)");
    refused("tutti local 1\nhop_us\n",
            "f: line 2: 'hop_us' stands with 0 numbers (VALUE [LOW HIGH] [open])");
    refused("tutti local 1\nhop_us 1 2 3\n",
            "f: line 2: 'hop_us': '1' is not within its interval 2 3");
    refused("tutti local 1\nhop_us 1\nhop_us 1\n", "f: line 3: 'hop_us' is given twice (once)");
    refused("tutti local 1\nhop_us nan\n",
            "f: line 2: 'hop_us': 'nan' is no number (1e-09 to 100000; as 0.62)");
    refused("tutti local 1\nread_own_GBps 1e-9\n",
            "f: line 2: 'read_own_GBps': '1e-9' is no number (0.001 to 1e+09; as 0.62)");
    refused("tutti local 1\nranks 0\n", "f: line 2: 'ranks': out of range '0' (1 to 1048576)");
    refused("tutti local 1\nskip_us 1\n",
            "f: line 2: unknown word 'skip_us' (backend, machine, date, processors, processes, "
            "ranks, copies, apart_ns, past_cache_bytes, or a parameter as 'hop_us')");
}
