/* The report on tables of training steps: those of the tree, with what "nothing that is new
 * matters" alone is worth on them; files and folders; what is refused. */
#include <math.h>
#include <stdlib.h>

#include "runtime/status.h"
#include "tests/test.h"
#include "tools/sink.h"
#include "tools/validate/training_run.h"

#define FOLDER TUTTI_SOURCE_DIR "/traces/measured/training/"

/* As long as the anchor's step; or a second. */
static int predict(void *context, const struct tutti_training_question *question,
                   struct tutti_training_prediction *ret, struct tutti_err *err)
{
    (void)context;
    (void)err;
    ret->step_s = question->anchor != NULL ? question->anchor_step_s : 1;
    return 0;
}

/* What is reported of one file or folder; NULL: the message is in `err`. */
static char *report(const char *path, const char *anchor, enum tutti_training_format format,
                    struct tutti_err *err)
{
    const struct tutti_training_report ask = {.paths = &path,
                                              .path_count = path != NULL,
                                              .anchor = anchor,
                                              .predictor = {predict, NULL},
                                              .format = format};
    struct tutti_sink_text text = {.out = NULL};
    struct tutti_sink sink;
    int status = tutti_sink_open_text(&sink, &text, err);

    if (status == 0)
        status = tutti_training_report(&ask, &sink, err);
    if (tutti_sink_close(&sink, status < 0 ? NULL : err) < 0 || status < 0) {
        tutti_sink_text_done(&text);
        return NULL;
    }
    free(text.notes);
    return text.out;
}

TEST(the_tables_of_the_tree_are_reported_on)
{
    struct tutti_err err = {""};
    char *seen;

    setenv("TUTTI_MEASURED_DIR", TUTTI_SOURCE_DIR "/traces/measured", 1);
    seen = report(NULL, NULL, TUTTI_TRAINING_TABLE, &err);
    if (seen == NULL)
        TEST_FAIL("%s", err.text);
    else
        CHECK(strncmp(seen, "# 4263 rows of 10 tables; anchor: none\n", 39) == 0);
    free(seen);
}

/* The number of `key` behind `at`. */
static double number_of(const char *at, const char *key)
{
    char name[64];

    snprintf(name, sizeof(name), "\"%s\": ", key);
    at = at == NULL ? NULL : strstr(at, name);
    return at == NULL ? NAN : strtod(at + strlen(name), NULL);
}

static void check_null(const char *table, const char *family, const char *anchor, double median,
                       double p90, double worst)
{
    char path[1024];
    char name[64];
    struct tutti_err err = {""};
    char *text;
    char *families;

    snprintf(path, sizeof(path), FOLDER "%s.csv", table);
    text = report(path, anchor, TUTTI_TRAINING_JSON, &err);
    REQUIRE(text != NULL);
    families = strstr(text, "\"families\": [");
    snprintf(name, sizeof(name), "\"family\": \"%s\"", family);
    families = families == NULL ? NULL : strstr(families, family[0] == '\0' ? "\n  ]," : name);
    if (!(fabs(number_of(families, "null_median_abs_percent") - median) < 0.05) ||
        !(fabs(number_of(families, "null_p90_abs_percent") - p90) < 0.05) ||
        !(fabs(number_of(families, "null_worst_abs_percent") - worst) < 0.05))
        TEST_FAIL("%s of %s by %s: %g, %g, %g", family, table, anchor == NULL ? "none" : anchor,
                  number_of(families, "null_median_abs_percent"),
                  number_of(families, "null_p90_abs_percent"),
                  number_of(families, "null_worst_abs_percent"));
    free(text);
}

/* What every prediction has to beat, in per cent: median, p90, worst. */
TEST(the_null_model_is_worth_this)
{
    check_null("internevo", "internevo_7b", "each:gpus=8", 4.57, 30.92, 44.09);
    check_null("nvidia_examples", "", "each:gpus=1", 8.23, 28.87, 62.32);
    check_null("tf_benchmarks", "tf11_dgx1_p100", "each:gpus=1", 3.82, 23.04, 40.10);
    check_null("tf_benchmarks", "tf11_ec2_k80_cluster", "each:gpus=8", 6.35, 13.10, 16.28);
    check_null("dlperf_tf2_bert", "dlperf_tf2_bert", "each:gpus=16", 48.70, 94.40, 158.63);
    check_null("vtrain", "vtrain_single", NULL, 51.12, 123.68, 258.44);
}

TEST(json_and_csv_have_a_row_a_row)
{
    struct tutti_err err = {""};
    char *json = report(FOLDER "dgxc.csv", "first", TUTTI_TRAINING_JSON, &err);
    char *csv = report(FOLDER "dgxc.csv", "first", TUTTI_TRAINING_CSV, &err);
    size_t objects = 0;
    size_t lines = 0;

    REQUIRE(json != NULL && csv != NULL);
    for (const char *at = json; (at = strstr(at, "{\"file\": ")) != NULL; at++)
        objects++;
    for (const char *at = csv; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    CHECK_INT(objects, 79);
    CHECK_INT(lines, 80);
    CHECK(strstr(json, "\n  \"anchor\": \"first\",\n") != NULL);
    CHECK(strstr(json, "\n  \"anchor_count\": 1,\n") != NULL);
    free(json);
    free(csv);
}

TEST(what_is_no_table_of_steps_is_refused)
{
    static const struct {
        const char *path;
        const char *anchor;
        const char *message;
    } cases[] = {
        {"/nowhere/steps.csv", NULL, "cannot read '/nowhere/steps.csv'"},
        {TUTTI_SOURCE_DIR "/sim", NULL,
         "no tables of training steps in '" TUTTI_SOURCE_DIR "/sim' (*.csv)"},
        {FOLDER "rates", NULL,
         FOLDER "rates/gemm.csv: line 2: no column of a result among 'accelerator, ...' "},
        {FOLDER "dgxc.csv", "last",
         "'last' names no row (first, COLUMN=VALUE, or each:COLUMN=VALUE)"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tutti_err err = {""};
        char *seen = report(cases[i].path, cases[i].anchor, TUTTI_TRAINING_TABLE, &err);

        CHECK(seen == NULL);
        if (strstr(err.text, cases[i].message) == NULL)
            TEST_FAIL("%s: %s", cases[i].path, err.text);
        free(seen);
    }
}
