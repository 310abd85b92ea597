/* Training steps measured beside predicted: which rows are anchors, what the null model says, how
 * far apart it all is. Who predicts here is made up. */
#include <math.h>

#include "runtime/status.h"
#include "tests/alloc_fail.h"
#include "tools/cli/page.h"
#include "tools/sink.h"
#include "tools/validate/training.h"

struct world {
    struct tutti_training_rows table;
    struct tutti_training_cases cases;
};

static bool set_up(struct world *world, const char *text)
{
    struct tutti_err err = {""};
    int status = tutti_training_parse("t.csv", text, strlen(text), &world->table, &err);

    if (status == 0)
        status = tutti_training_cases_new(&world->table, 1, &world->cases, &err);
    if (status < 0)
        TEST_FAIL("%s", err.text);
    return status == 0;
}

static void take_down(struct world *world)
{
    tutti_training_cases_done(&world->cases);
    tutti_training_free(&world->table);
}

static void choose(struct world *world, const char *text)
{
    struct tutti_training_anchor anchor;
    struct tutti_err err = {""};

    CHECK_OK(tutti_training_anchor_parse(text, &anchor, &err), err);
    CHECK_OK(tutti_training_anchor_choose(&world->cases, &anchor, &err), err);
}

/* Seven seconds on any device; as long as the anchor's, where there is one. Of a model called
 * "unknown" nothing, and a device fewer than two is out of memory. */
static int predict(void *context, const struct tutti_training_question *question,
                   struct tutti_training_prediction *ret, struct tutti_err *err)
{
    const struct tutti_training_row_settings *settings = question->settings;

    (void)context;
    if (strcmp(settings->model, "unknown") == 0)
        return tutti_fail(err, TUTTI_EINVAL, "no model 'unknown' (gpt)");
    ret->step_s = question->anchor != NULL ? question->anchor_step_s : 7;
    ret->memory_GB = 40;
    ret->fits = settings->gpus >= 2;
    ret->fitted = strcmp(settings->variant, "fitted") == 0;
    snprintf(ret->plan, sizeof(ret->plan), "ddp dp=%d", (int)settings->gpus);
    return 0;
}

static void ask(struct world *world)
{
    const struct tutti_training_predictor predictor = {predict, NULL};
    struct tutti_err err = {""};

    CHECK_OK(tutti_training_predict(&world->cases, &predictor, &err), err);
}

/* The lines of the anchors: "2 5". */
static void check_anchors(struct world *world, const char *text, const char *expected)
{
    char seen[128] = "";

    choose(world, text);
    for (size_t i = 0; i < world->cases.case_count; i++) {
        size_t used = strlen(seen);

        if (world->cases.cases[i].anchor)
            snprintf(seen + used, sizeof(seen) - used, "%s%u", used > 0 ? " " : "",
                     world->cases.cases[i].row->line);
    }
    CHECK_TEXT(seen, expected);
}

/* Two families of two micro-batches; the first row of the first is distrusted. */
#define SCALING                                                                   \
    "family,gpus,micro_batch,params_B,seq_len,global_batch,step_time_s,quality\n" \
    "a,8,1,1,1000,8,1,degraded\n"                                                 \
    "a,8,1,1,1000,8,1.0,good\n"                                                   \
    "a,16,1,1,1000,16,1.25,good\n"                                                \
    "a,16,2,1,1000,16,1.1,good\n"                                                 \
    "a,32,2,1,1000,32,1.2,good\n"                                                 \
    "b,8,1,1,1000,8,,good\n"                                                      \
    "b,64,1,1,1000,64,2,good\n"

TEST(one_row_of_each_family_or_series_is_taken_as_measured)
{
    struct world world = {.table = {.row_count = 0}};

    REQUIRE(set_up(&world, SCALING));
    check_anchors(&world, "first", "3"); /* of b nothing else would be left */
    check_anchors(&world, "gpus=16", "4");
    check_anchors(&world, "each:first", "3 5");
    check_anchors(&world, "each:gpus=16", "4 5");
    check_anchors(&world, "each:gpus=8", "3");
    CHECK_INT(world.cases.cases[4].anchored_by->row->line, 3); /* its series has none */
    CHECK(world.cases.cases[5].anchored_by == NULL);
    check_anchors(&world, "gpus=128", "");
    CHECK(world.cases.cases[1].anchored_by == NULL);
    take_down(&world);
}

TEST(an_anchor_that_names_no_row_is_refused)
{
    static const struct {
        const char *text;
        const char *message;
    } cases[] = {
        {"last", "'last' names no row (first, COLUMN=VALUE, or each:COLUMN=VALUE)"},
        {"=8", "'=8' names no row (first, COLUMN=VALUE, or each:COLUMN=VALUE)"},
        {"gpu_count=8", "unknown column 'gpu_count' ("},
        {"each:microbatch=1", "unknown column 'microbatch' (did you mean 'micro_batch'?"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tutti_training_anchor anchor;
        struct tutti_err err = {""};

        CHECK_INT(tutti_training_anchor_parse(cases[i].text, &anchor, &err), -TUTTI_EINVAL);
        if (strncmp(err.text, cases[i].message, strlen(cases[i].message)) != 0)
            TEST_FAIL("'%s': %s", cases[i].text, err.text);
    }
}

/* In ms. */
static int64_t null_ms(const struct world *world, size_t i)
{
    double step_s = world->cases.cases[i].null_step_s;

    return isnan(step_s) ? -1 : llround(step_s * 1e3);
}

TEST(the_null_model_is_one_rate_of_a_family)
{
    struct world world = {.table = {.row_count = 0}};

    REQUIRE(set_up(&world, SCALING));
    /* Weak scaling: as many FLOPs a device everywhere. All good rows: 1, 1.1, 1.2, 1.25. */
    ask(&world);
    CHECK_INT(null_ms(&world, 0), 1150);
    CHECK_INT(null_ms(&world, 4), 1150);
    CHECK_INT(null_ms(&world, 5), -1); /* one row would explain itself */
    choose(&world, "gpus=16");
    ask(&world);
    CHECK_INT(null_ms(&world, 1), 1250);
    choose(&world, "each:gpus=16");
    ask(&world);
    CHECK_INT(null_ms(&world, 1), 1250);
    CHECK_INT(null_ms(&world, 4), 1100);
    take_down(&world);
}

TEST(model_flops_are_those_of_parameters_and_attention)
{
    struct world world = {.table = {.row_count = 0}};

    REQUIRE(set_up(&world, "gpus,params_B,layers,hidden,seq_len,global_batch,step_time_s\n"
                           "8,1,,,1000,8,1\n8,1,10,100,1000,8,1\n8,,10,100,1000,8,1\n"));
    /* 8000 tokens x 6e9, and 12 x 10 x 100 x 1000 more a token. */
    CHECK(fabs(tutti_training_model_flops(&world.table.rows[0].settings) - 48e12) < 1);
    CHECK(fabs(tutti_training_model_flops(&world.table.rows[1].settings) - 48.096e12) < 1);
    CHECK(isnan(tutti_training_model_flops(&world.table.rows[2].settings)));
    take_down(&world);
}

TEST(of_throughput_the_null_model_is_the_series_rate)
{
    struct world world = {.table = {.row_count = 0}};

    REQUIRE(set_up(&world, "family,model,gpus,nodes,batch_per_gpu,throughput,unit\n"
                           "f,resnet,1,1,64,100,images/s\nf,resnet,8,1,64,640,images/s\n"
                           "f,vgg,1,1,32,100,images/s\nf,vgg,8,1,32,400,images/s\n"
                           "f,lone,1,1,32,400,images/s\n"));
    choose(&world, "each:gpus=1");
    ask(&world);
    CHECK_INT(null_ms(&world, 1), 640); /* measured 800 */
    CHECK_INT(null_ms(&world, 3), 320); /* measured 640 */
    CHECK_INT(null_ms(&world, 4), -1);
    CHECK(!world.cases.cases[4].anchor);
    CHECK(fabs(world.cases.cases[3].prediction.step_s - 0.32) < 1e-12);
    take_down(&world);
}

TEST(errors_are_of_good_rows_that_are_no_anchors)
{
    struct world world = {.table = {.row_count = 0}};
    struct tutti_training_errors errors;
    struct tutti_err err = {""};

    REQUIRE(set_up(&world, "family,model,gpus,step_time_s,memory_GB,quality,variant\n"
                           "f,gpt,1,7,50,good,\n"    /*   0 %; memory 20 % */
                           "f,gpt,2,10,80,,fitted\n" /*  30 %;        50 % */
                           "f,gpt,4,14,,good,\n"     /*  50 % */
                           "f,gpt,8,1,,degraded,\n"  /* left out */
                           "f,unknown,8,1,,good,\n"  /* not predicted */
                           "f,gpt,x,1,,good,\n"      /* cannot be read */
                           "g,gpt,1,,OOM,good,\n"    /* rightly predicted not to fit */
                           "g,gpt,2,,OOM,good,\n")); /* wrongly predicted to fit */
    ask(&world);
    CHECK_OK(tutti_training_errors(&world.cases, SIZE_MAX, &errors, &err), err);
    CHECK_INT(errors.row_count, 8);
    CHECK_INT(errors.degraded_count, 1);
    CHECK_INT(errors.measured_count, 5);
    CHECK_INT(errors.predicted_count, 3);
    CHECK_INT(errors.fitted_count, 1);
    CHECK_INT(errors.step.count, 3);
    CHECK(fabs(errors.step.median_abs_percent - 30) < 1e-9);
    CHECK(fabs(errors.step.mean_abs_percent - 80.0 / 3) < 1e-9);
    CHECK(fabs(errors.step.p90_abs_percent - 50) < 1e-9);
    CHECK(fabs(errors.step.worst_abs_percent - 50) < 1e-9);
    CHECK_INT(errors.memory.count, 2);
    CHECK(fabs(errors.memory.median_abs_percent - 35) < 1e-9);
    CHECK_INT(errors.ran_count, 3);
    CHECK_INT(errors.ran_fits_count, 2);
    CHECK_INT(errors.out_count, 2);
    CHECK_INT(errors.out_refused_count, 1);
    CHECK_TEXT(world.cases.cases[4].why, "no model 'unknown' (gpt)");
    CHECK_TEXT(world.cases.cases[5].why, "gpus 'x' (a whole number from 1)");
    CHECK_OK(tutti_training_errors(&world.cases, 6, &errors, &err), err);
    CHECK_INT(errors.row_count, 2);
    CHECK_INT(errors.step.count, 0);
    CHECK(isnan(errors.step.median_abs_percent));
    take_down(&world);
}

static int refuse(void *context, const struct tutti_training_question *question,
                  struct tutti_training_prediction *ret, struct tutti_err *err)
{
    (void)context;
    (void)question;
    (void)ret;
    return tutti_fail(err, TUTTI_EIO, "the disk is gone");
}

TEST(what_is_no_matter_of_the_row_ends_all)
{
    const struct tutti_training_predictor predictor = {refuse, NULL};
    struct world world = {.table = {.row_count = 0}};
    struct tutti_err err = {""};

    REQUIRE(set_up(&world, SCALING));
    CHECK_INT(tutti_training_predict(&world.cases, &predictor, &err), -TUTTI_EIO);
    CHECK_TEXT(err.text, "t.csv: line 2: the disk is gone");
    take_down(&world);
}

/* ---- printed --------------------------------------------------------------------------------- */

static int print_json(const struct world *world, struct tutti_sink_text *text,
                      struct tutti_err *err)
{
    struct tutti_sink sink;
    struct tutti_json json = {.depth = 0};
    int status = tutti_sink_open_text(&sink, text, err);
    int closed;

    if (status < 0)
        return status;
    json.out = sink.out;
    tutti_json_open(&json, NULL, '{');
    status = tutti_training_json(&world->cases, &json, err);
    tutti_json_close(&json);
    closed = tutti_sink_close(&sink, status < 0 ? NULL : err);
    return status < 0 ? status : closed;
}

TEST(rows_and_errors_are_printed_as_json)
{
    struct world world = {.table = {.row_count = 0}};
    struct tutti_sink_text text = {.out = NULL};
    struct tutti_err err = {""};
    static const char expected[] =
        "{\n"
        "  \"rows\": [\n"
        "    {\"file\": \"t.csv\", \"line\": 2, \"family\": \"f\", \"measured_step_s\": 4, "
        "\"predicted_step_s\": 4, \"null_step_s\": 4, \"predicted_memory_GB\": 40, "
        "\"fits\": false, \"anchor\": true, \"why\": null, \"measured_memory_GB\": 50, "
        "\"fitted\": false, \"quality\": \"good\", \"plan\": \"ddp dp=1\"},\n"
        "    {\"file\": \"t.csv\", \"line\": 3, \"family\": \"f\", \"measured_step_s\": 5, "
        "\"predicted_step_s\": 4, \"null_step_s\": 2, \"predicted_memory_GB\": 40, "
        "\"fits\": true, \"anchor\": false, \"why\": null, \"measured_memory_GB\": null, "
        "\"fitted\": false, \"quality\": null, \"plan\": \"ddp dp=2\"},\n"
        "    {\"file\": \"t.csv\", \"line\": 4, \"family\": \"f\", \"measured_step_s\": 5, "
        "\"predicted_step_s\": null, \"null_step_s\": 1, \"predicted_memory_GB\": null, "
        "\"fits\": null, \"anchor\": false, \"why\": \"no model 'unknown' (gpt)\", "
        "\"measured_memory_GB\": null, \"fitted\": false, \"quality\": \"good\", "
        "\"plan\": null},\n"
        "    {\"file\": \"t.csv\", \"line\": 5, \"family\": \"f\", \"measured_step_s\": null, "
        "\"predicted_step_s\": 4, \"null_step_s\": 1, \"predicted_memory_GB\": 40, "
        "\"fits\": true, \"anchor\": false, \"why\": \"it did not fit: out of memory\", "
        "\"measured_memory_GB\": null, \"fitted\": false, \"quality\": \"good\", "
        "\"plan\": \"ddp dp=4\"}\n"
        "  ],\n"
        "  \"families\": [\n"
        "    {\"family\": \"f\", ";

    REQUIRE(set_up(&world, "family,model,gpus,params_B,seq_len,global_batch,step_time_s,memory_GB,"
                           "quality\nf,gpt,1,1,1000,8,4,50,good\nf,gpt,2,1,1000,8,5,,\n"
                           "f,unknown,4,1,1000,8,5,,good\nf,gpt,4,1,1000,8,,OOM,good\n"));
    choose(&world, "first");
    ask(&world);
    CHECK_OK(print_json(&world, &text, &err), err);
    REQUIRE(text.out != NULL);
    CHECK(strncmp(text.out, expected, sizeof(expected) - 1) == 0);
    if (strncmp(text.out, expected, sizeof(expected) - 1) != 0)
        fprintf(stderr, "%s\n", text.out);
    CHECK(strstr(text.out, "\n  \"row_count\": 4,\n") != NULL);
    CHECK(strstr(text.out, "\n  \"median_abs_percent\": 20,\n") != NULL);
    CHECK(strstr(text.out, "\n  \"null_median_abs_percent\": 60,\n") != NULL);
    CHECK(strstr(text.out, "\n  \"memory_median_abs_percent\": 20,\n") != NULL);
    tutti_sink_text_done(&text);
    take_down(&world);
}

TEST(errors_are_printed_by_family_with_the_reasons)
{
    struct world world = {.table = {.row_count = 0}};
    struct tutti_sink_text text = {.out = NULL};
    struct tutti_sink sink;
    struct tutti_page page;
    struct tutti_err err = {""};
    int status;

    REQUIRE(set_up(&world, "family,model,gpus,params_B,seq_len,global_batch,step_time_s,memory_GB,"
                           "quality\nf,gpt,1,1,1000,8,4,50,good\nf,gpt,2,1,1000,8,5,32,\n"
                           "f,unknown,4,1,1000,8,5,,good\nf,gpt,4,1,1000,8,,OOM,good\n"
                           "g,gpt,4,1,1000,8,8,,\ng,gpt,4,1,1000,8,7,,degraded\n"));
    choose(&world, "first");
    ask(&world);
    REQUIRE(tutti_sink_open_text(&sink, &text, &err) == 0);
    REQUIRE(tutti_page_open(&page, &sink, &err) == 0);
    status = tutti_training_print(&world.cases, &page, &err);
    CHECK_OK(tutti_page_close(&page, status, &err), err);
    CHECK_OK(tutti_sink_close(&sink, &err), err);
    CHECK_TEXT(text.out,
               "#  family    rows  pred.  median   mean    p90  worst   null  its p90  worst\n"
               "#          (good)            (%)    (%)    (%)    (%)    (%)      (%)    (%)\n"
               "   f            3      2   20.00  20.00  20.00  20.00  60.00    60.00  60.00\n"
               "   g            1      1   12.50  12.50  12.50  12.50    N/A      N/A    N/A\n"
               "   all          4      3   16.25  16.25  20.00  20.00  60.00    60.00  60.00\n"
               "#  family  memory  median    p90  worst     ran  of these     OOM      of these\n"
               "#          (rows)     (%)    (%)    (%)  (rows)     (fit)  (rows)  (do not fit)\n"
               "   f            2   22.50  25.00  25.00       2         1       1             0\n"
               "   all          2   22.50  25.00  25.00       3         2       1             0\n"
               "# left out, as their source distrusts them or contradicts itself: 1\n"
               "# taken as measured, and in no error: 1 (anchor)\n"
               "# not predicted: 1: no model 'unknown' (gpt)\n");
    tutti_sink_text_done(&text);
    take_down(&world);
}

TEST(rows_are_printed_as_csv)
{
    struct world world = {.table = {.row_count = 0}};
    struct tutti_sink_text text = {.out = NULL};
    struct tutti_sink sink;
    struct tutti_err err = {""};

    REQUIRE(set_up(&world, "model,gpus,step_time_s\ngpt,1,4\nunknown,2,5\n"));
    ask(&world);
    REQUIRE(tutti_sink_open_text(&sink, &text, &err) == 0);
    CHECK_OK(tutti_training_csv(&world.cases, &sink, &err), err);
    CHECK_OK(tutti_sink_close(&sink, &err), err);
    CHECK_TEXT(text.out, "file,line,family,measured_step_s,predicted_step_s,null_step_s,measured_"
                         "memory_GB,predicted_memory_GB,fits,anchor,fitted,quality,plan,why\n"
                         "t.csv,2,t,4,7,,,40,false,false,false,,ddp dp=1,\n"
                         "t.csv,3,t,5,,,,,,false,false,,,no model 'unknown' (gpt)\n");
    tutti_sink_text_done(&text);
    take_down(&world);
}

static int story(struct tutti_err *err)
{
    const struct tutti_training_predictor predictor = {predict, NULL};
    struct world world = {.table = {.row_count = 0}};
    struct tutti_training_anchor anchor;
    struct tutti_sink_text text = {.out = NULL};
    int status = tutti_training_parse("t.csv", SCALING, strlen(SCALING), &world.table, err);

    if (status == 0)
        status = tutti_training_cases_new(&world.table, 1, &world.cases, err);
    if (status == 0)
        status = tutti_training_anchor_parse("each:gpus=8", &anchor, err);
    if (status == 0)
        status = tutti_training_anchor_choose(&world.cases, &anchor, err);
    if (status == 0)
        status = tutti_training_predict(&world.cases, &predictor, err);
    if (status == 0)
        status = print_json(&world, &text, err);
    tutti_sink_text_done(&text);
    take_down(&world);
    return status;
}

TEST(it_survives_without_memory)
{
    struct tutti_err err = {""};

    ALLOC_FAIL_EACH(story(&err), err);
}
