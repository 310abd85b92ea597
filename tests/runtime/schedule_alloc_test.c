/* Every allocation of the text form, of laid-out calls and of the price made to fail once. */
#include "runtime/coll.h"
#include "runtime/schedule.h"
#include "tests/alloc_fail.h"

/* A caller with two callees, of which one sends to two peers from two lanes. */
static const char text[] = "schedule caller\n"
                           "contract custom int8 sum count 0\n"
                           "ranks 3\nlanes 2\nin 8 B\nout 16 B\nscratch 8 B\nstate 16 B\n"
                           "axis one first 0 width 1 stride 1 size 1 period 1 repeat 1\n"
                           "work update optimizer 1us 3 flops 4 moved\n"
                           "  reads state+0 4 B whole 1\n"
                           "  writes state+0 4 B\n"
                           "atomic state+8 8 B\n"
                           "sizes 1 in 8 out 16 scratch 8 state 4\n"
                           "rank 0 lane 0\n"
                           "  CALL 0 in+0 out+0 scratch+0\n"
                           "  CALL 1 axis 1 in+0 out+8 scratch+0\n"
                           "  COMPUTE 1us 3 flops work 0\n"
                           "rank 1 lane 0\n"
                           "  CALL 0 in+0 out+0 scratch+0\n"
                           "  COMPUTE 1us after lane 1 step 0\n"
                           "rank 1 lane 1\n"
                           "  COMPUTE 5 flops\n"
                           "rank 2 lane 0\n"
                           "  CALL 0 in+0 out+0 scratch+0\n"
                           "callee spread\n"
                           "contract custom int8 sum count 0\n"
                           "lanes 2\nin 8 B\nout 8 B\n"
                           "rank 0 lane 0\n"
                           "  SEND in+0 4 B to 1\n"
                           "  SEND in+0 4 B to 2\n"
                           "  COPY out+0 = in+0 8 B\n"
                           "rank 0 lane 1\n"
                           "  SEND in+4 4 B to 1 after lane 0 step 2\n"
                           "rank 1 lane 0\n"
                           "  RECV out+0 4 B from 0\n"
                           "rank 1 lane 1\n"
                           "  RECV out+4 4 B from 0\n"
                           "rank 2 lane 0\n"
                           "  RECV out+0 4 B from 0\n"
                           "callee copy\n"
                           "contract broadcast int8 sum count 8\n"
                           "ranks 1\n"
                           "rank 0 lane 0\n"
                           "  COPY out+0 = in+0 8 B\n";

static int parse_print_parse(struct tutti_err *err)
{
    struct tutti_schedule *first = NULL;
    struct tutti_schedule *second = NULL;
    char *printed = NULL;
    int status = tutti_schedule_parse("text", text, sizeof(text) - 1, &first, err);

    if (status == 0)
        status = tutti_schedule_print(first, &printed, err);
    if (status == 0)
        status = tutti_schedule_parse("printed", printed, strlen(printed), &second, err);
    free(printed);
    tutti_schedule_free(first);
    tutti_schedule_free(second);
    return status;
}

TEST(parsing_and_printing_fail_cleanly)
{
    struct tutti_err err = {""};

    ALLOC_FAIL_EACH(parse_print_parse(&err), err);
}

static int lay_out_and_judge(struct tutti_err *err)
{
    struct tutti_schedule *schedule = NULL;
    struct tutti_schedule *flat = NULL;
    struct tutti_price price;
    int status = tutti_schedule_parse("text", text, sizeof(text) - 1, &schedule, err);

    if (status == 0)
        status = tutti_schedule_flatten(schedule, &flat, err);
    if (status == 0)
        status = tutti_schedule_check(schedule, err);
    if (status == 0)
        status = tutti_schedule_price(schedule, &price, err);
    tutti_schedule_free(flat);
    tutti_schedule_free(schedule);
    return status;
}

TEST(laying_out_checking_and_pricing_fail_cleanly)
{
    struct tutti_err err = {""};

    ALLOC_FAIL_EACH(lay_out_and_judge(&err), err);
}

/* A training step: work, an all-reduce on groups, in place, and the update. */
static int judge_step(struct tutti_err *err)
{
    static const char step[] =
        "schedule step\ncontract custom float sum count 0\nranks 2\nscratch 8 B\nstate 8 B\n"
        "axis dp first 0 width 1 stride 1 size 2 period 2 repeat 1\n"
        "work backward matmul 1us\n  writes scratch+0 4 B\n"
        "work update optimizer 1us\n  reads scratch+0 4 B whole 1\n  writes state+0 4 B\n"
        "rank 0 lane 0\n  COMPUTE 1us work 0\n  CALL 0 axis 1 scratch+0 scratch+0 scratch+4\n"
        "  COMPUTE 1us work 1\n"
        "rank 1 lane 0\n  COMPUTE 1us work 0\n  CALL 0 axis 1 scratch+0 scratch+0 scratch+4\n"
        "  COMPUTE 1us work 1\n"
        "callee sum\ncontract allreduce float sum count 1\nscratch 4 B\n"
        "rank 0 lane 0\n  SEND in+0 4 B to 1\n  RECV out+0 4 B from 1\n"
        "rank 1 lane 0\n  RECV scratch+0 4 B from 0\n"
        "  REDUCE out+0 = in+0 op scratch+0 4 B last\n  SEND out+0 4 B to 0\n";
    struct tutti_schedule *schedule = NULL;
    int status = tutti_schedule_parse("text", step, sizeof(step) - 1, &schedule, err);

    if (status == 0)
        status = tutti_schedule_check(schedule, err);
    if (status == 0)
        status = tutti_schedule_prove(schedule, err);
    tutti_schedule_free(schedule);
    return status;
}

TEST(checking_and_proving_a_step_fail_cleanly)
{
    struct tutti_err err = {""};

    ALLOC_FAIL_EACH(judge_step(&err), err);
}

/* A schedule in chunks, added to a set and made for another size. */
static int add_and_scale(struct tutti_err *err)
{
    static const char chunks[] =
        "schedule s\ncontract broadcast int8 sum count 2\nchunks 1\nranks 1\n"
        "rank 0 lane 0\n  COPY out+0 = in+0 1 C\n";
    struct tutti_shape shape = tutti_shape_flat(1);
    struct tutti_algorithm_set *set = NULL;
    struct tutti_schedule *own = NULL;
    struct tutti_schedule *scaled = NULL;
    int status = tutti_algorithm_set_new(&set, err);
    struct tutti_coll_params params = {
        .collective = TUTTI_BROADCAST, .dtype = TUTTI_INT8, .count = 7, .added = set};

    if (status == 0)
        status = tutti_schedule_parse("text", chunks, sizeof(chunks) - 1, &own, err);
    if (status == 0)
        status = tutti_algorithm_add_schedule(set, "own", own, err);
    if (status < 0)
        tutti_schedule_free(own);
    if (status == 0)
        status = tutti_coll_generate("own", &params, &shape, &scaled, err);
    tutti_schedule_free(scaled);
    tutti_algorithm_set_free(set);
    return status;
}

TEST(adding_a_schedule_fails_cleanly)
{
    struct tutti_err err = {""};

    ALLOC_FAIL_EACH(add_and_scale(&err), err);
}
