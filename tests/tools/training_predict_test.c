/* Rows of training steps simulated: from settings alone, anchors, and what is refused. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/status.h"
#include "tests/test.h"
#include "tools/validate/training_plan.h"
#include "tools/validate/training_predict.h"
#include "tools/validate/training_run.h"

static const char head[] = "family,gpu,gpus_per_node,nodes,gpus,network,framework,model,precision,"
                           "batch_per_gpu,seq_len,throughput,unit,variant\n";

struct world {
    struct tutti_training_rows table;
    struct tutti_training_simulator *simulator;
    struct tutti_training_predictor predictor;
};

static void open_world(struct world *w, const char *rows)
{
    char text[4096];
    struct tutti_err err = {""};

    snprintf(text, sizeof(text), "%s%s", head, rows);
    CHECK_OK(tutti_training_parse("t.csv", text, strlen(text), &w->table, &err), err);
    CHECK_OK(tutti_training_simulator_new(NULL, &w->simulator, &err), err);
    w->predictor = tutti_training_simulate(w->simulator);
}

static void close_world(struct world *w)
{
    tutti_training_free(&w->table);
    tutti_training_simulator_free(w->simulator);
}

/* The step of row `i`, anchored by row `anchor` (-1: by none). */
static double step_of(const struct world *w, size_t i, int anchor,
                      struct tutti_training_prediction *ret)
{
    struct tutti_training_question q = {.settings = &w->table.rows[i].settings, .of_a_pass = true};
    struct tutti_err err = {""};

    *ret = (struct tutti_training_prediction){.memory_GB = NAN, .fits = -1};
    if (anchor >= 0) {
        q.anchor = &w->table.rows[anchor].settings;
        q.anchor_step_s = w->table.rows[anchor].measured_step_s;
    }
    CHECK_OK(w->predictor.predict(w->predictor.context, &q, ret, &err), err);
    return ret->step_s;
}

static const char *why(const char *rows, char buf[1024])
{
    struct world w;
    struct tutti_training_prediction prediction;
    struct tutti_err err = {""};
    struct tutti_training_question q = {.of_a_pass = true};
    int status;

    open_world(&w, rows);
    q.settings = &w.table.rows[0].settings;
    status = w.predictor.predict(w.predictor.context, &q, &prediction, &err);
    CHECK(status == -TUTTI_EINVAL || status == -TUTTI_ELACK);
    snprintf(buf, 1024, "%s", err.text);
    close_world(&w);
    return buf;
}

TEST(an_anchor_is_predicted_as_it_was_measured_and_others_by_it)
{
    struct tutti_training_prediction one;
    struct tutti_training_prediction eight;
    struct world w;
    double free_s;

    open_world(&w, "f,V100,8,1,1,one node,PyTorch,ResNet-50,fp32,64,,300,images/s,\n"
                   "f,V100,8,1,8,one node,PyTorch,ResNet-50,fp32,64,,2300,images/s,\n");
    free_s = step_of(&w, 0, -1, &one);
    CHECK(fabs(step_of(&w, 0, 0, &one) - 64.0 / 300) < 1e-6);
    CHECK(step_of(&w, 1, 0, &eight) >= 64.0 / 300);
    CHECK(eight.step_s < 1.2 * 64.0 / 300);
    CHECK(fabs(step_of(&w, 1, 1, &eight) - 8 * 64.0 / 2300) < 1e-6);
    CHECK(free_s > 0.05);
    CHECK(free_s < 0.5);
    CHECK(strstr(eight.plan, "ddp dp=8 batch 64 x 1, resnet50 fp32 of pytorch, dgx-1v:gpus=8") !=
          NULL);
    CHECK(one.flops > 64 * 3 * 8e9);
    CHECK(one.memory_GB > 1);
    CHECK_INT(one.fits, 1);
    close_world(&w);
}

TEST(an_anchor_of_another_model_says_nothing)
{
    struct tutti_training_prediction prediction;
    struct world w;

    open_world(&w, "f,V100,8,1,1,one node,PyTorch,ResNet-50,fp32,64,,3,images/s,\n"
                   "f,V100,8,1,8,one node,PyTorch,VGG16,fp32,64,,2300,images/s,\n");
    CHECK(fabs(step_of(&w, 1, 0, &prediction) - step_of(&w, 1, -1, &prediction)) <= 0);
    close_world(&w);
}

TEST(what_was_measured_is_not_looked_at)
{
    struct tutti_training_prediction a;
    struct tutti_training_prediction b;
    struct world w;

    open_world(&w, "f,A100,8,2,16,RoCE 4 x 100 Gb/s per node,PyTorch DDP,BERT-base,fp16,32,128,900,"
                   "sequences/s,\n"
                   "g,A100,8,2,16,RoCE 4 x 100 Gb/s per node,PyTorch DDP,BERT-base,fp16,32,128,"
                   "garbage,furlongs,memory 1 GB\n");
    CHECK(step_of(&w, 0, -1, &a) > 0);
    CHECK(fabs(step_of(&w, 1, -1, &b) - a.step_s) <= 0);
    CHECK(fabs(a.memory_GB - b.memory_GB) <= 0);
    CHECK_TEXT(a.plan, b.plan);
    CHECK(strstr(a.plan, "net=roce,nics=4,nic=75Gb/s") != NULL);
    close_world(&w);
}

TEST(passes_that_are_added_up_cost_what_the_last_one_does)
{
    struct tutti_training_prediction few;
    struct tutti_training_prediction many;
    struct tutti_training_prediction single;
    struct world w;

    open_world(&w,
               "f,V100,8,1,8,one node,Horovod TensorFlow,BERT-large,fp32,4,128,1,sequences/s,\n");
    w.table.rows[0].settings.grad_accum = 4;
    (void)step_of(&w, 0, -1, &few);
    w.table.rows[0].settings.grad_accum = 1000;
    (void)step_of(&w, 0, -1, &many);
    w.table.rows[0].settings.grad_accum = 1;
    (void)step_of(&w, 0, -1, &single);
    CHECK(many.step_s < few.step_s); /* of a pass: the reduction is shared among more */
    CHECK(few.step_s < single.step_s);
    CHECK(many.step_s > 0.5 * few.step_s);
    CHECK(fabs(many.flops / few.flops - 1) < 1e-9);
    close_world(&w);
}

TEST(servers_lengthen_the_step_of_one_host)
{
    struct tutti_training_prediction one;
    struct tutti_training_prediction eight;
    struct world w;

    open_world(&w, "f,K80,8,1,8,\"10 Gb/s Ethernet, distributed_replicated\",TensorFlow 1.1 "
                   "tf_cnn_benchmarks,ResNet-50,fp32,64,,400,images/s,\n"
                   "f,K80,8,8,64,\"10 Gb/s Ethernet, distributed_replicated\",TensorFlow 1.1 "
                   "tf_cnn_benchmarks,ResNet-50,fp32,64,,3000,images/s,\n");
    /* 14/8 of 102 MB over 1.25 GB/s, of which a part is hidden */
    (void)step_of(&w, 0, -1, &one);
    (void)step_of(&w, 1, -1, &eight);
    CHECK(eight.step_s - one.step_s > 0.3 * 0.143);
    CHECK(eight.step_s - one.step_s < 0.143);
    CHECK(strstr(eight.plan, "8 hosts with 8 servers") != NULL);
    close_world(&w);
}

TEST(what_is_missing_or_not_modelled_is_named)
{
    static const struct {
        const char *row;
        const char *text;
    } cases[] = {
        {"f,,8,1,1,one node,PyTorch,ResNet-50,fp32,64,,1,images/s,\n", "(gpu)"},
        {"f,V100,8,1,1,one node,PyTorch,,fp32,64,,1,images/s,\n", "(model)"},
        {"f,V100,8,1,1,one node,,ResNet-50,fp32,64,,1,images/s,\n", "(framework)"},
        {"f,V100,8,1,1,one node,PyTorch,ResNet-50,,64,,1,images/s,\n", "(precision)"},
        {"f,V100,8,1,1,one node,PyTorch,ResNet-50,fp32,,,1,images/s,\n", "(batch_per_gpu"},
        {"f,V100,8,2,16,,PyTorch,ResNet-50,fp32,64,,1,images/s,\n", "(network)"},
        {"f,V100,8,2,15,one node,PyTorch,ResNet-50,fp32,64,,1,images/s,\n", "15 devices on 2"},
        {"f,V100,8,1,1,one node,PyTorch,Gryphon,fp32,64,,1,images/s,\n", "'Gryphon' is no known"},
        {"f,Z100,8,1,1,one node,PyTorch,ResNet-50,fp32,64,,1,images/s,\n", "'Z100'"},
    };
    char text[1024];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (strstr(why(cases[i].row, text), cases[i].text) == NULL)
            TEST_FAIL("%s: %s", cases[i].text, text);
}

/* The site's configurations: 8192 tied, 14336 not; and InternLM's usual 11008. */
TEST(shapes_follow_from_how_many_parameters_there_are)
{
    static const struct {
        int64_t layers;
        int64_t hidden;
        int64_t vocab;
        double params_B;
        uint32_t feed_forward;
        bool tied;
    } cases[] = {{16, 2048, 131072, 1.342, 8192, true},
                 {32, 4096, 131072, 8.859, 14336, false},
                 {32, 4096, 103168, 7, 11008, false}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tutti_training_row_settings s = {.model = "Llama-like",
                                                .variant = "",
                                                .layers = cases[i].layers,
                                                .hidden = cases[i].hidden,
                                                .heads = 32,
                                                .seq_len = 4096,
                                                .vocab = cases[i].vocab,
                                                .params_B = cases[i].params_B};
        struct tutti_training_plan plan = {.topo = NULL};
        struct tutti_err err = {""};

        CHECK_OK(tutti_training_plan_model(&s, &plan, &err), err);
        if (plan.model == NULL)
            continue;
        CHECK_INT(plan.model->transformer.feed_forward, cases[i].feed_forward);
        CHECK_INT(plan.model->transformer.tied, cases[i].tied);
        tutti_training_plan_done(&plan);
    }
}

/* DLPerf's BERT of TensorFlow on four hosts, by its steps on two: better than that nothing changes,
 * and than a flat ring, of which 32 devices take 1.03 times what 16 do. */
TEST(hosts_beyond_an_anchor_are_no_flat_ring)
{
    static const char *const path[] = {TUTTI_SOURCE_DIR
                                       "/traces/measured/training/dlperf_tf2_bert.csv"};
    struct tutti_training_tables tables;
    struct tutti_training_cases cases;
    struct tutti_training_anchor anchor;
    struct tutti_training_beyond beyond;
    struct tutti_training_simulator *simulator;
    struct tutti_training_predictor predictor;
    struct tutti_err err = {""};

    CHECK_OK(tutti_training_load(path, 1, &tables, &err), err);
    CHECK_OK(tutti_training_cases_new(tables.tables, 1, &cases, &err), err);
    CHECK_OK(tutti_training_anchor_parse("each:gpus=16", &anchor, &err), err);
    CHECK_OK(tutti_training_anchor_choose(&cases, &anchor, &err), err);
    CHECK_OK(tutti_training_simulator_new(NULL, &simulator, &err), err);
    predictor = tutti_training_simulate(simulator);
    CHECK_OK(tutti_training_predict(&cases, &predictor, &err), err);
    CHECK_OK(tutti_training_beyond(&cases, SIZE_MAX, &beyond, &err), err);

    CHECK_INT(beyond.ring.count, 11);
    CHECK(beyond.step.worst_abs_percent < 5);
    CHECK(beyond.null.median_abs_percent > 3 * beyond.step.median_abs_percent);
    CHECK(beyond.ring.median_abs_percent > 3 * beyond.step.median_abs_percent);
    CHECK(beyond.increment.median_abs_percent < 25);
    CHECK(beyond.ring_increment.median_abs_percent > 80);
    tutti_training_simulator_free(simulator);
    tutti_training_cases_done(&cases);
    tutti_training_unload(&tables);
}
