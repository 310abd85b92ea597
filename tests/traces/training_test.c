/* Tables of training steps: what was set is read apart from what came out; those of the tree. */
#include <math.h>

#include "runtime/status.h"
#include "tests/alloc_fail.h"
#include "tests/folder.h"
#include "traces/training.h"

static int parse(const char *text, struct tutti_training_rows *ret, struct tutti_err *err)
{
    return tutti_training_parse("lab/our.csv", text, strlen(text), ret, err);
}

#define STEPS                                                                                   \
    "family,gpu,gpus_per_node,nodes,gpus,model,params_B,layers,hidden,seq_len,vocab,tp,pp,dp,"  \
    "zero,recompute,micro_batch,global_batch,step_time_s,tokens_per_s_per_gpu,memory_GB,"       \
    "quality,note\n"                                                                            \
    "ours,H100,8,2,16,GPT,1.3,24,2048,2048,,1,1,16,0,full (HFU 51.4),2,64,0.5,,71.5,good,\"a\n" \
    "note, \"\"quoted\"\"\"\n"                                                                  \
    "ours,H100,8,2,16,GPT,760M,24,2048,2048,,2,1,8,1 over 8 GPUs,selective + sequence "         \
    "parallel,2,64,,1000,OOM,,\n"

TEST(steps_of_language_models_are_read)
{
    struct tutti_training_rows rows = {0};
    struct tutti_err err = {""};
    const struct tutti_training_row *row;

    REQUIRE(parse(STEPS, &rows, &err) == 0);
    REQUIRE(rows.row_count == 2);
    CHECK_INT(rows.problem_count, 0);
    CHECK_TEXT(rows.passed_over, "");
    row = &rows.rows[0];
    CHECK_TEXT(row->file, "lab/our.csv");
    CHECK_INT(row->line, 2);
    CHECK_TEXT(row->family, "ours");
    CHECK_TEXT(row->note, "a\nnote, \"quoted\"");
    CHECK(!row->by_throughput);
    CHECK_INT(row->settings.gpus, 16);
    CHECK_INT(row->settings.vocab, TUTTI_UNSTATED);
    CHECK_INT(row->settings.heads, TUTTI_UNSTATED); /* no such column */
    CHECK_TEXT(row->settings.system, "");
    CHECK_INT(row->settings.zero_stage, 0);      /* stated, which is not TUTTI_UNSTATED */
    CHECK_TEXT(row->settings.recompute, "full"); /* what was achieved is no setting */
    CHECK_INT(row->settings.recompute_mode, TUTTI_TRAINING_RECOMPUTE_FULL);
    CHECK_INT(row->settings.sequence_parallel, TUTTI_UNSTATED);
    CHECK(row->settings.params_B == 1.3 && row->measured_step_s == 0.5);
    CHECK(row->results.memory_GB == 71.5 && isnan(row->results.tokens_per_s_per_gpu));
    row = &rows.rows[1];
    CHECK_INT(row->line, 4); /* the note before takes two */
    CHECK(row->settings.params_B == 0.76);
    CHECK_INT(row->settings.zero_stage, 1);
    CHECK_INT(row->settings.zero_group, 8);
    CHECK_INT(row->settings.recompute_mode, TUTTI_TRAINING_RECOMPUTE_SELECTIVE);
    CHECK_INT(row->settings.sequence_parallel, 1);
    CHECK_INT(row->results.memory, TUTTI_TRAINING_MEMORY_OUT);
    CHECK(isnan(row->results.memory_GB) && isnan(row->measured_step_s));
    CHECK_TEXT(row->why, "it did not fit: out of memory");
    tutti_training_free(&rows);
}

/* One row of throughput; its measured step in us, or -1 and `why`. */
static int64_t step_us(const char *cells, const char *why)
{
    char text[512];
    struct tutti_training_rows rows = {0};
    struct tutti_err err = {""};
    int64_t us;

    snprintf(text, sizeof(text),
             "gpus,precision,batch_per_gpu,seq_len,grad_accum,throughput,unit\n"
             "%s\n",
             cells);
    if (parse(text, &rows, &err) < 0) {
        TEST_FAIL("%s: %s", cells, err.text);
        return -2;
    }
    us = isnan(rows.rows[0].measured_step_s) ? -1 : llround(rows.rows[0].measured_step_s * 1e6);
    CHECK(rows.rows[0].by_throughput);
    CHECK_TEXT(rows.rows[0].why, why);
    CHECK_TEXT(rows.rows[0].family, "our");
    tutti_training_free(&rows);
    return us;
}

TEST(a_throughput_is_a_step)
{
    CHECK_INT(step_us("8,mixed,64,,,1024,images/s", ""), 500000);
    CHECK_INT(step_us("8,mixed,64,128,,65536,tokens/s", ""), 1000000);
    CHECK_INT(step_us("8,mixed,,,,0.551,s/iteration", ""), 551000);
    CHECK_INT(step_us("8,mixed,,,,4,iterations/s", ""), 250000);
    /* Of sixteen passes the mean of one. */
    CHECK_INT(step_us("8,mixed,64,,16,1024,sequences/s", ""), 500000);
    CHECK_INT(step_us("8,mixed,64,,,65536,tokens/s", "tokens a second without seq_len"), -1);
    CHECK_INT(step_us("8,mixed,,,,1024,images/s", "a throughput without gpus and batch_per_gpu"),
              -1);
    CHECK_INT(step_us("8,mixed,64,,,1024,mels/s", "the unit of the throughput is not known"), -1);
    CHECK_INT(step_us("8,mixed,64,,,1024,", "a throughput without its unit"), -1);
    CHECK_INT(
        step_us("8,mixed,64,,,1.5,\"time to train, h\"", "a time to train: no step is stated"), -1);
    CHECK_INT(step_us("8,mixed,64,,,fast,images/s", "a result that is no number"), -1);
    CHECK_INT(step_us("8,mixed,64,,,0,images/s", "neither a step time nor a throughput is stated"),
              -1);
}

/* The batch of a device and the passes, read from cells that may hold two numbers. */
static void check_batch(const char *precision, const char *batch, const char *accum,
                        double expected, int64_t passes, const char *problem)
{
    char text[512];
    struct tutti_training_rows rows = {0};
    struct tutti_err err = {""};
    double seen;

    snprintf(
        text, sizeof(text),
        "gpus,precision,batch_per_gpu,grad_accum,throughput,unit\n8,%s,\"%s\",\"%s\",1,images/s\n",
        precision, batch, accum);
    REQUIRE(parse(text, &rows, &err) == 0);
    seen = rows.rows[0].settings.batch_per_gpu;
    if (isnan(expected) ? !isnan(seen) : seen != expected)
        TEST_FAIL("'%s': %g, expected %g", batch, seen, expected);
    CHECK_INT(rows.rows[0].settings.grad_accum, passes);
    CHECK_TEXT(rows.rows[0].problem, problem);
    CHECK_INT(rows.problem_count, problem[0] != '\0');
    tutti_training_free(&rows);
}

TEST(of_two_batches_the_one_of_the_precision_is_meant)
{
    static const char two[] = "lab/our.csv: line 2: batch_per_gpu '176 and 24' (a number; or two, "
                              "of mixed precision and of full, where precision says which)";

    check_batch("FP32", "131,072", "", 131072, TUTTI_UNSTATED, "");
    check_batch("FP32", "128 (FP32) / 256 (AMP)", "", 128, TUTTI_UNSTATED, "");
    check_batch("mixed", "128 (TF) / 256 (AMP)", "", 256, TUTTI_UNSTATED, "");
    check_batch("mixed", "60 , 32 ; 61440 , 65536", "1024 , 2048", 60, 1024, "");
    check_batch("FP32", "60 , 32 ; 61440 , 65536", "1024 , 2048", 32, 2048, "");
    check_batch("TF32", "88 and 176", "768 and 384", 88, 768, "");
    check_batch("FP16", "8 , 8 ; 32768", "4096 , 4096", 8, 4096, "");
    /* Passes x batch differ: two phases of a training, not two precisions. */
    check_batch("mixed", "176 and 24", "1 and 3", NAN, TUTTI_UNSTATED, two);
    check_batch("", "176 and 24", "", NAN, TUTTI_UNSTATED, two);
}

TEST(a_remark_says_what_a_column_holds_from_there_on)
{
    struct tutti_training_rows rows = {0};
    struct tutti_err err = {""};

    REQUIRE(parse("# ours: of 2026\n# family: a\n# gpus: 8\n# source: the lab\ngpus,step_time_s\n"
                  ",1\n4,2\n# family: b\n# source:\n# gpus: 2\n,3\n",
                  &rows, &err) == 0);
    REQUIRE(rows.row_count == 3);
    CHECK_TEXT(rows.rows[0].family, "a");
    CHECK_TEXT(rows.rows[1].family, "a");
    CHECK_TEXT(rows.rows[2].family, "b");
    CHECK_TEXT(rows.rows[1].source, "the lab");
    CHECK_TEXT(rows.rows[2].source, "");
    CHECK_INT(rows.rows[0].settings.gpus, 8);
    CHECK_INT(rows.rows[1].settings.gpus, 4); /* the row's own */
    CHECK_INT(rows.rows[2].settings.gpus, 2);
    CHECK_INT(rows.rows[2].line, 11);
    tutti_training_free(&rows);
}

TEST(columns_of_published_tables_are_known_by_their_names)
{
    struct tutti_training_rows rows = {0};
    struct tutti_err err = {""};
    const struct tutti_training_row *row;

    REQUIRE(parse("model,size,dtype,# GPUs,step_ms_mean,parallelism,a2a_overlap,Sharding Strategy,"
                  "NumParams,vendor\n"
                  "llama3.1,8b,fp8,8,4377.9,\"TP8 PP2 EP32, GBS256 seq4096 bf16\",on,FULL_SHARD,"
                  "64862437376,x\n",
                  &rows, &err) == 0);
    row = &rows.rows[0];
    CHECK_TEXT(row->settings.model, "llama3.1 8b");
    CHECK_TEXT(row->settings.precision, "fp8");
    CHECK_TEXT(row->settings.variant, "a2a_overlap=on");
    CHECK_INT(row->settings.gpus, 8);
    CHECK_INT(row->settings.tp, 8);
    CHECK_INT(row->settings.ep, 32);
    CHECK_INT(row->settings.global_batch, 256);
    CHECK_INT(row->settings.seq_len, 4096);
    CHECK_INT(row->settings.zero_stage, 3);
    CHECK(fabs(row->settings.params_B - 64.862437376) < 1e-9);
    CHECK(fabs(row->measured_step_s - 4.3779) < 1e-12);
    CHECK_TEXT(rows.passed_over, "vendor");
    tutti_training_free(&rows);
}

TEST(results_do_not_hide_in_the_variant)
{
    struct tutti_training_rows rows = {0};
    struct tutti_err err = {""};

    REQUIRE(parse("variant,throughput,unit\n"
                  "train memory 4.8 GB; inference 0.102 s/image,0.5,s/iteration\n"
                  "Dimension=2 Dice - mixed precision=72.9,1,images/s\nXLA=on,1,images/s\n",
                  &rows, &err) == 0);
    CHECK_TEXT(rows.rows[0].settings.variant, "");
    CHECK(rows.rows[0].results.memory_GB == 4.8);
    CHECK_TEXT(rows.rows[1].settings.variant, "Dimension=2");
    CHECK_TEXT(rows.rows[2].settings.variant, "XLA=on");
    tutti_training_free(&rows);
}

TEST(what_is_no_table_is_refused_with_the_line)
{
    static const struct {
        const char *text;
        const char *message;
    } cases[] = {
        {"", "lab/our.csv: no header line (one with step_time_s or throughput is needed)"},
        {"# gpus: 8\n",
         "lab/our.csv: no header line (one with step_time_s or throughput is needed)"},
        {"model,gpus\nGPT,8\n",
         "lab/our.csv: line 1: no column of a result among 'model, ...' (step_time_s, "
         "tokens_per_s_per_gpu, throughput, memory_GB)"},
        {"model,step_time_s\n", "lab/our.csv: a header but no rows"},
        {"tp,step_time_s,tp\n1,1,1\n", "lab/our.csv: line 1: column 'tp' twice"},
        {"tp,step_time_s\n\n1,1\n1,1,1\n",
         "lab/our.csv: line 4: 3 cells from '1' on (2, as many as columns)"},
        {"tp,step_time_s\n\"1,1\n",
         "lab/our.csv: line 2: a quote without its end (a quote inside one is doubled)"},
        {"tp,step_time_s\n\"1\"2,1\n",
         "lab/our.csv: line 2: text behind a quoted cell (a comma, or the line's end)"},
        {"\xff\xfet\n", "lab/our.csv: line 1: text in UTF-16 (UTF-8 is expected)"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tutti_training_rows rows = {0};
        struct tutti_err err = {""};

        CHECK_INT(parse(cases[i].text, &rows, &err), -TUTTI_EINVAL);
        CHECK_TEXT(err.text, cases[i].message);
        CHECK_INT(rows.row_count, 0);
        tutti_training_free(&rows);
    }
}

TEST(a_setting_that_cannot_be_read_is_its_rows_problem)
{
    static const struct {
        const char *column;
        const char *cell;
        const char *message;
    } cases[] = {
        {"tp", "eight", "tp 'eight' (a whole number from 1)"},
        {"tp", "1.5", "tp '1.5' (a whole number from 1)"},
        {"tp", "0", "tp '0' (a whole number from 1)"},
        {"tp", "-1", "tp '-1' (a whole number from 1)"},
        {"tp", "1e99", "tp '1e99' (a whole number from 1)"},
        {"vp", "x", "vp 'x' (a whole number from 0)"},
        {"params_B", "1.7G", "params_B '1.7G' (billions above 0, or with B, M or T)"},
        {"zero", "4", "zero '4' (0, 1, 2, 3, FSDP, HSDP, '1 over 8 GPUs')"},
        {"recompute", "half", "recompute 'half' (none, selective or full)"},
        {"grad_accum", "1.5",
         "grad_accum '1.5' (a whole number from 1, or two as batch_per_gpu has)"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[256];
        char message[256];
        struct tutti_training_rows rows = {0};
        struct tutti_err err = {""};

        snprintf(text, sizeof(text), "%s,step_time_s\n,0.25\n%s,0.5\n", cases[i].column,
                 cases[i].cell);
        snprintf(message, sizeof(message), "lab/our.csv: line 3: %s", cases[i].message);
        REQUIRE(parse(text, &rows, &err) == 0);
        CHECK_INT(rows.problem_count, 1);
        CHECK_TEXT(rows.rows[0].problem, "");
        CHECK_TEXT(rows.rows[1].problem, message);
        CHECK(rows.rows[1].measured_step_s == 0.5);
        CHECK_INT(tutti_training_check(&rows, &err), -TUTTI_EINVAL);
        CHECK_TEXT(err.text, message);
        tutti_training_free(&rows);
    }
}

TEST(fields_are_found_by_name)
{
    const struct tutti_training_field *field;
    struct tutti_training_rows rows = {0};
    struct tutti_err err = {""};
    char buf[TUTTI_TRAINING_VALUE_BYTES];

    REQUIRE(parse(STEPS, &rows, &err) == 0);
    REQUIRE(tutti_training_field_find("global_batch", &field, &err) == 0);
    CHECK_TEXT(tutti_training_value(&rows.rows[0], field, buf), "64");
    CHECK(tutti_training_is(&rows.rows[0], field, "64.0"));
    CHECK(!tutti_training_is(&rows.rows[0], field, "64 "));
    CHECK(!tutti_training_is(&rows.rows[0], field, ""));
    REQUIRE(tutti_training_field_find("vocab", &field, &err) == 0);
    CHECK_TEXT(tutti_training_value(&rows.rows[0], field, buf), "");
    CHECK(tutti_training_is(&rows.rows[0], field, ""));
    REQUIRE(tutti_training_field_find("gpu", &field, &err) == 0);
    CHECK(tutti_training_is(&rows.rows[0], field, "H100"));
    CHECK_INT(tutti_training_field_find("microbatch", &field, &err), -TUTTI_EINVAL);
    CHECK(strstr(err.text, "unknown column 'microbatch' (did you mean 'micro_batch'?") != NULL);
    tutti_training_free(&rows);
}

static int read_and_free(struct tutti_err *err)
{
    struct tutti_training_rows rows = {0};
    int status = parse(STEPS, &rows, err);

    tutti_training_free(&rows);
    return status;
}

TEST(reading_survives_without_memory)
{
    struct tutti_err err = {""};

    ALLOC_FAIL_EACH(read_and_free(&err), err);
}
