/* The tables of training steps of the tree: whole, the same as the collected ones that they were
 * made of, and their settings the same whatever their results. */
#include <math.h>

#include "runtime/status.h"
#include "tests/folder.h"
#include "traces/text/cells.h"
#include "traces/training.h"
#include "traces/training/columns.h"

#define FOLDER TUTTI_SOURCE_DIR "/traces/measured/training/"

static bool load(const char *path, struct tutti_training_rows *ret)
{
    struct tutti_err err = {""};
    size_t bytes = 0;
    char *text = test_read_file(path, &bytes);
    int status = text == NULL ? -1 : tutti_training_parse(path, text, bytes, ret, &err);

    free(text);
    if (text != NULL && status < 0)
        TEST_FAIL("%s: %s", path, err.text);
    return status == 0;
}

/* Tables of steps, and of which collected table each is a part. */
static const struct {
    const char *table;
    const char *collected; /* NULL: typed off a page */
    size_t row_count;
    size_t measured_count;
} tables[] = {
    {"vtrain", "vtrain_a100_single_node", 1440, 1440},
    {"internevo", "internevo_7b_a100_scaling", 70, 54}, /* the others say memory */
    {"ultrascale", "ultrascale_h100_1B_8B", 1632, 1027},
    {"dgxc", "dgxc_h100_llm_scaling", 79, 79},
    {"papers", "llm_papers_and_misc", 29, 26},
    {"detectron2", "detectron2_v100_step_memory", 60, 60},
    {"nvidia_examples", "nvidia_dle_tf_mxnet_paddle", 512, 392},
    /* of the other 120 no batch is stated */
    {"tf_benchmarks", "training_throughput", 207, 207},
    {"dlperf", "training_throughput", 168, 168},
    {"dlperf_tf2_bert", NULL, 66, 66},
};

enum { TABLE_COUNT = sizeof(tables) / sizeof(tables[0]) };

static void path_of(size_t table, char *path, size_t bytes)
{
    snprintf(path, bytes, FOLDER "%s.csv", tables[table].table);
}

TEST(the_tables_of_the_tree_are_whole)
{
    for (size_t i = 0; i < TABLE_COUNT; i++) {
        char path[1024];
        struct tutti_training_rows rows = {0};
        size_t measured_count = 0;

        path_of(i, path, sizeof(path));
        REQUIRE(load(path, &rows));
        for (size_t j = 0; j < rows.row_count; j++) {
            const struct tutti_training_row *row = &rows.rows[j];

            measured_count += isnan(row->measured_step_s) ? 0 : 1;
            if (isnan(row->measured_step_s) == (row->why[0] == '\0'))
                TEST_FAIL("%s: line %u: %g s, why '%s'", path, row->line, row->measured_step_s,
                          row->why);
            if (row->source[0] == '\0' || row->settings.model[0] == '\0' ||
                row->settings.gpus == TUTTI_UNSTATED)
                TEST_FAIL("%s: line %u: source, model and gpus are wanted", path, row->line);
        }
        if (rows.row_count != tables[i].row_count || measured_count != tables[i].measured_count)
            TEST_FAIL("%s: %zu rows, %zu of them measured", path, rows.row_count, measured_count);
        CHECK_TEXT(rows.passed_over, "");
        tutti_training_free(&rows);
    }
}

/* ---- against what was collected -------------------------------------------------------------- */

/* Fields that say the same, but for what the tables of the tree know beyond: the family's name, how
 * variables were kept, how long sentences are, how much memory a GPU has, that a row contradicts
 * its note; and a note that was left out. */
static bool is_same(const struct tutti_training_row *ours, const struct tutti_training_row *theirs)
{
    size_t count;
    const struct tutti_training_field *fields = tutti_training_fields(&count);

    for (size_t i = 0; i < count; i++) {
        char buf[2][TUTTI_TRAINING_VALUE_BYTES];
        const char *a = tutti_training_value(ours, &fields[i], buf[0]);
        const char *b = tutti_training_value(theirs, &fields[i], buf[1]);
        bool free_text = strcmp(fields[i].name, "family") == 0 ||
                         strcmp(fields[i].name, "note") == 0 ||
                         (strcmp(fields[i].name, "quality") == 0 && strcmp(a, "degraded") == 0);

        if (strcmp(fields[i].name, "seq_len") == 0 && b[0] == '\0')
            continue;
        if (strcmp(fields[i].name, "gpu") == 0 && strcmp(b, "V100") == 0 &&
            strcmp(a, "V100-32GB") == 0)
            continue;

        /* Stages of a device that a source states elsewhere. */
        if (strcmp(fields[i].name, "vp") == 0 && b[0] == '\0')
            continue;

        /* A collected source may go on with a note beside it. */
        if (strcmp(fields[i].name, "source") == 0 && strncmp(a, b, strlen(a)) == 0)
            continue;

        if (strcmp(fields[i].name, "variant") == 0 ? strstr(a, b) == NULL
                                                   : !free_text && strcmp(a, b) != 0)
            return false;
    }
    return true;
}

TEST(the_tables_say_what_the_collected_ones_say)
{
    size_t seen = 0;

    for (size_t i = 0; i < TABLE_COUNT; i++) {
        char path[1024];
        struct tutti_training_rows ours = {0};
        struct tutti_training_rows theirs = {0};
        size_t at = 0;

        if (tables[i].collected == NULL)
            continue;
        snprintf(path, sizeof(path), TUTTI_DATA_DIR "/training/%s.csv", tables[i].collected);
        if (!load(path, &theirs))
            continue;
        path_of(i, path, sizeof(path));
        REQUIRE(load(path, &ours));
        for (size_t j = 0; j < ours.row_count; j++, at++) { /* in the same order */
            while (at < theirs.row_count && !is_same(&ours.rows[j], &theirs.rows[at]))
                at++;
            if (at == theirs.row_count) {
                TEST_FAIL("%s: line %u is in no row of %s", path, ours.rows[j].line,
                          tables[i].collected);
                break;
            }
        }
        seen++;
        tutti_training_free(&ours);
        tutti_training_free(&theirs);
    }
    if (seen == 0)
        SKIP("no tables in " TUTTI_DATA_DIR "/training");
}

/* What the collected tables hold, each of its own form. */
TEST(collected_tables_are_read)
{
    static const struct {
        const char *name;
        size_t row_count;
        size_t measured_count;
        size_t problem_count;
    } cases[] = {
        {"amd_primus_projection", 4, 0, 0}, /* no global batch */
        {"aws_albert_p3dn_scaling", 4, 4, 0},
        {"aws_moe_step_times", 45, 45, 0},
        {"b200_vultr_dgxc_step_times", 7, 7, 0},
        {"bigscience_v100_3d", 121, 121, 0},
        {"flagperf_scaling", 99, 0, 0},           /* times to train */
        {"lambda_pytorch_one_node", 414, 230, 0}, /* tokens/s without a length, mels/s */
        {"lambda_tf_cnn_multi_gpu", 1762, 1762, 0},
        {"megatron_bridge_llm_throughput", 251, 234, 17}, /* lines 235 on are shifted by a cell */
        {"megatron_lm_h100_weak_scaling", 9, 0, 0},       /* TFLOP/s alone */
        {"mlperf_resnet50_step_times", 336, 336, 0},
        {"mlperf_results", 2072, 1474, 25}, /* 0 accelerators */
        {"mlperf_v05_resnet50", 11, 10, 0},
        {"mosaic_llmfoundry_fsdp_scaling", 216, 216, 0},
        {"nemo_a100_h100", 56, 28, 0},
        {"nvidia_dle_tf_mxnet_paddle", 863, 436, 34}, /* two batches that contradict each other */
        {"paddle_perf_v100_a100", 78, 78, 0},
        {"torchgpipe_p40_pipeline", 19, 0, 0}, /* the batch stands in a script */
    };
    size_t seen = 0;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char path[1024];
        struct tutti_training_rows rows = {0};
        size_t measured_count = 0;

        snprintf(path, sizeof(path), TUTTI_DATA_DIR "/training/%s.csv", cases[i].name);
        if (!load(path, &rows))
            continue;
        for (size_t j = 0; j < rows.row_count; j++)
            measured_count += isnan(rows.rows[j].measured_step_s) ? 0 : 1;
        if (rows.row_count != cases[i].row_count || measured_count != cases[i].measured_count ||
            rows.problem_count != cases[i].problem_count)
            TEST_FAIL("%s: %zu rows, %zu measured, %zu problems", path, rows.row_count,
                      measured_count, rows.problem_count);
        seen++;
        tutti_training_free(&rows);
    }
    if (seen == 0)
        SKIP("no tables in " TUTTI_DATA_DIR "/training");
}

/* ---- results apart from settings ------------------------------------------------------------- */

/* The table with every cell of a result, of quality and of the note filled with `garbage`. */
static char *with_garbage(const char *path, const char *garbage)
{
    size_t bytes = 0;
    size_t out_bytes = 0;
    size_t garbage_cells = 0;
    char *text = test_read_file(path, &bytes);
    char *out = NULL;
    FILE *file = open_memstream(&out, &out_bytes);
    struct tutti_trace_cells *cells = calloc(1, sizeof(*cells));
    bool is_result[TUTTI_TRACE_CELLS_MAX] = {false};
    bool has_header = false;
    struct tutti_err err = {""};

    if (text == NULL || file == NULL || cells == NULL)
        abort();
    if (tutti_trace_cells_open(cells, path, text, bytes, &err) < 0)
        TEST_FAIL("%s", err.text);
    while (tutti_trace_cells_next(cells, &err) == 1) {
        if (cells->is_remark) {
            fprintf(file, "# %s\n", cells->cell[0]);
            continue;
        }
        for (size_t i = 0; i < cells->cell_count; i++) {
            const struct tutti_training_column *column =
                has_header ? NULL : tutti_training_column_find(cells->cell[i]);

            is_result[i] = has_header ? is_result[i]
                                      : column != NULL && (column->kind >= TUTTI_COLUMN_RESULT ||
                                                           strcmp(column->name, "note") == 0 ||
                                                           strcmp(column->name, "quality") == 0);
            garbage_cells += has_header && is_result[i];
            fprintf(file, "%s\"%s\"", i > 0 ? "," : "",
                    has_header && is_result[i] ? garbage : cells->cell[i]);
        }
        has_header = true;
        fprintf(file, "\n");
    }
    fclose(file);
    free(text);
    free(cells);
    if (garbage_cells == 0)
        TEST_FAIL("%s: nothing was changed", path);
    return out;
}

/* All settings of all rows, as bytes. */
static char *settings_of(const struct tutti_training_rows *rows)
{
    size_t count;
    size_t bytes = 0;
    char *text = NULL;
    const struct tutti_training_field *fields = tutti_training_fields(&count);
    FILE *file = open_memstream(&text, &bytes);

    for (size_t j = 0; j < rows->row_count; j++) {
        for (size_t i = 0; i < count; i++) {
            char buf[TUTTI_TRAINING_VALUE_BYTES];

            if (fields[i].is_setting)
                fprintf(file, "%s=%s\n", fields[i].name,
                        tutti_training_value(&rows->rows[j], &fields[i], buf));
        }
        fprintf(file, "%s\n", rows->rows[j].problem);
    }
    fclose(file);
    return text;
}

TEST(settings_are_the_same_bytes_whatever_the_results)
{
    static const char *const garbage[] = {"0.000001", "1e12", "nonsense", "OOM", "", "-3"};

    for (size_t i = 0; i < TABLE_COUNT * 6; i++) {
        char path[1024];
        struct tutti_training_rows rows = {0};
        struct tutti_training_rows changed = {0};
        struct tutti_err err = {""};
        char *text;
        char *seen;
        char *expected;

        if (!test_takes())
            continue;
        path_of(i / 6, path, sizeof(path));
        REQUIRE(load(path, &rows));
        text = with_garbage(path, garbage[i % 6]);
        CHECK_OK(tutti_training_parse(path, text, strlen(text), &changed, &err), err);
        expected = settings_of(&rows);
        seen = settings_of(&changed);
        if (strcmp(seen, expected) != 0)
            TEST_FAIL("%s: '%s' in the results changes settings", path, garbage[i % 6]);
        free(seen);
        free(expected);
        free(text);
        tutti_training_free(&changed);
        tutti_training_free(&rows);
    }
}

/* ---- what else lies there -------------------------------------------------------------------- */

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;

    return (a > b) - (a < b);
}

/* One thread of an x86 host decodes with TensorFlow's operation: Zen 4, Zen 5, Emerald Rapids. */
TEST(tensorflow_decodes_689_images_a_second_on_one_thread)
{
    size_t bytes = 0;
    char *text = test_read_file(FOLDER "rates/input_rates.csv", &bytes);
    struct tutti_trace_cells *cells = calloc(1, sizeof(*cells));
    struct tutti_err err = {""};
    double rates[16];
    size_t count = 0;

    REQUIRE(text != NULL && cells != NULL);
    CHECK_OK(tutti_trace_cells_open(cells, "input_rates.csv", text, bytes, &err), err);
    while (tutti_trace_cells_next(cells, &err) == 1) {
        if (cells->cell_count > 4 && strcmp(cells->cell[2], "tensorflow") == 0 &&
            strcmp(cells->cell[0], "jpeg_decode_one_thread") == 0 &&
            strncmp(cells->cell[1], "Arm", 3) != 0 && count < 16)
            rates[count++] = strtod(cells->cell[3], NULL);
    }
    CHECK_INT(count, 3);
    qsort(rates, count, sizeof(*rates), compare);
    CHECK_INT(rates[count / 2], 689);
    free(cells);
    free(text);
}
