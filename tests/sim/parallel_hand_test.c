/* Steps of models that are cut, beside figures by hand. */
#include "runtime/strategy.h"
#include "sim/predict.h"
#include "sim/train/part.h"
#include "tests/machines.h"
#include "tests/sim/parallel_world.h"

/* ---- keys and values ------------------------------------------------------------------------- */

enum { HIDDEN = 4096, TOKENS = 4096, LAYERS = 2, KV_HEADS = 4, RANKS = 8 };

/* Layers of a product of queries, keys and values, which has `heads` of the latter of 512 columns
 * each. */
static struct tutti_workload *model_of(uint32_t heads)
{
    const unsigned kv = heads * 512;
    struct tutti_workload *model = NULL;
    struct tutti_err err = {""};
    char text[1024];
    const int bytes = snprintf(
        text, sizeof(text),
        "model attends\nsample sequence bytes 8\nsequence %d\nlogits 1\n"
        "transformer layers %d hidden %d heads 8 kv_heads %u\n"
        "layer l repeat %d transformer\n"
        "operation qkv matmul %d x %d x %u split columns kv %u\n"
        "operation rotary elementwise split heads in %u out %u kv %u\n"
        "variable qkv elements %u rows %d split columns kv %u\n"
        "saved split %u input %d kv %u\n",
        TOKENS, LAYERS, HIDDEN, (unsigned)heads, LAYERS, TOKENS, HIDDEN, HIDDEN + kv, TOKENS * kv,
        TOKENS * (HIDDEN + kv), TOKENS * (HIDDEN + kv), 2 * TOKENS * kv, HIDDEN * (HIDDEN + kv),
        HIDDEN, HIDDEN * kv, TOKENS * (HIDDEN + kv), TOKENS * HIDDEN, TOKENS * kv);

    CHECK_OK(tutti_model_parse("attends", text, (size_t)bytes, &model, &err), err);
    if (model == NULL)
        abort();
    return model;
}

static void check_same(const struct tutti_parallel_answer *a, const struct tutti_parallel_answer *b)
{
    CHECK_INT(a->split.compute_ps, b->split.compute_ps);
    CHECK_INT(a->split.tensor_ps, b->split.tensor_ps);
    CHECK_INT(a->split.gather_ps, b->split.gather_ps);
    CHECK_INT(a->split.optimizer_ps, b->split.optimizer_ps);
    for (int term = 0; term < TUTTI_MEMORY_TERM_COUNT; term++)
        CHECK_INT(a->footprints[0].bytes[term], b->footprints[0].bytes[term]);
}

static tutti_ps all_reduce_ps(const char *spec, enum tutti_dtype dtype, uint64_t count)
{
    struct tutti_ask ask = {
        .size = sizeof(ask),
        .params = {.collective = TUTTI_ALLREDUCE, .dtype = dtype, .op = TUTTI_SUM, .count = count}};
    struct tutti_answer answer = {.time_ps = -1};
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_topo_from_spec(spec, &topo, &err), err);
    ask.topo = topo;
    CHECK_OK(tutti_predict(&ask, &answer, &err), err);
    tutti_topo_free(topo);
    return answer.time_ps;
}

/* On 8 ranks of tensor parallelism 4 heads of keys and values cost what 8 do, of which each rank
 * has one, and their gradients are summed by pairs. */
TEST(heads_held_twice_cost_as_twice_as_many)
{
    const enum tutti_sharding shardings[] = {TUTTI_SHARD_NONE, TUTTI_SHARD_ZERO1,
                                             TUTTI_SHARD_ZERO3};
    const uint64_t elements = (uint64_t)LAYERS * HIDDEN * 512;

    for (size_t i = 0; i < sizeof(shardings) / sizeof(shardings[0]); i++) {
        struct tutti_parallel_answer twice;
        struct tutti_parallel_answer once;
        struct world w;

        open_world(&w, "dgx-h100:nodes=2", "mlp",
                   (struct tutti_parallel){
                       .tensor = RANKS, .data = 2, .sharding = shardings[i], .micro_batches = 2});
        tutti_model_free(w.model);
        w.ask.model = w.model = model_of(KV_HEADS);
        twice = predict(&w);
        tutti_model_free(w.model);
        w.ask.model = w.model = model_of(2 * KV_HEADS);
        once = predict(&w);
        check_same(&twice, &once);
        CHECK_INT(twice.split.data_ps - once.split.data_ps,
                  all_reduce_ps("dgx-h100:nodes=1,gpus=2",
                                shardings[i] == TUTTI_SHARD_ZERO3 ? TUTTI_BFLOAT16 : TUTTI_FLOAT32,
                                elements));
        tutti_parallel_answer_free(&twice);
        tutti_parallel_answer_free(&once);
        close_world(&w);
    }
}

/* ---- long steps ------------------------------------------------------------------------------ */

/* A step of 16 stages is as long as one of them: it is refused by that, not by the sum of all. */
TEST(a_step_of_many_stages_is_as_long_as_one)
{
    enum { STAGES = 16, FEW = 160, FACTOR = 20 };
    struct tutti_parallel_answer few;
    struct tutti_parallel_answer many;
    struct tutti_err err = {""};
    struct world w;
    double day;

    open_world(
        &w, "dgx-h100:nodes=2", "llama3-405b",
        (struct tutti_parallel){.pipeline = STAGES, .micro_batches = FEW, .micro_batch = 64});
    w.ask.any_memory = true;
    few = predict(&w);
    w.parallel.micro_batches = FEW * FACTOR; /* 5 of 7 days; of all stages 78 */
    many = predict(&w);
    day = (double)many.step_ps * 1e-12 / 86400;
    printf("%d micro-batches: %.2f days\n", FEW * FACTOR, day);
    CHECK(day > 2 && day < 7);
    CHECK(many.step_ps > few.step_ps * (FACTOR - 4) && many.step_ps < few.step_ps * FACTOR);
    tutti_parallel_answer_free(&few);
    tutti_parallel_answer_free(&many);
    w.parallel.micro_batches = FEW * FACTOR * 10;
    CHECK_INT(tutti_parallel_predict(&w.ask, &many, &err), -TUTTI_EINVAL);
    CHECK(strstr(err.text, "' days (at most 7)") != NULL);
    close_world(&w);
}

/* ---- network cards --------------------------------------------------------------------------- */

/* 4 hosts of 8 GPUs and fewer cards: with tensor parallelism of T the groups of data parallelism,
 * T of them, each of 8/T ranks a host, leave a host by all of its cards at once. Gradients of S
 * bytes a rank take T 2 (n-1)/n S over their sum, of n ranks, or somewhat longer. */
TEST(groups_leave_a_host_by_all_of_its_cards)
{
    static const struct {
        const char *spec;
        double out;  /* of a host, bytes a second */
        double most; /* times what it is by hand: NCCL does not keep all cards busy under PCIe */
    } machines[] = {{"dgx-1v:nodes=4", 50e9, 1.5},
                    {"dgx-1p:nodes=4", 50e9, 1.5},
                    {"dgx-1v:nodes=4,nicbw=5GB/s", 20e9, 1.5},
                    {"host:gpu=a100,nodes=4,gpus=8,nics=1,nic=25GB/s", 25e9, 1.5},
                    {"host:gpu=a100,nodes=4,gpus=8,nics=2,nic=25GB/s", 50e9, 1.5},
                    {"host:gpu=h100,gpus=8,nodes=4,net=efa", 400e9, 3},
                    {"rail:nodes=4,gpus=8,nics=2,nic=25GB/s", 50e9, 1.5},
                    {"pcie:nodes=4,gpus=8,nics=4,gpu=a100,nicbw=3GB/s", 12e9, 2.3}};

    for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++) {
        for (uint32_t tensor = 1; tensor <= 8; tensor *= 2) {
            const double n = 32.0 / tensor;
            struct tutti_parallel_share share;
            struct tutti_parallel_answer a;
            struct tutti_err err = {""};
            struct world w;
            double hand;
            double seen;

            open_world(&w, machines[i].spec, "gpt2-355m",
                       (struct tutti_parallel){.tensor = tensor, .data = 32 / tensor});
            w.ask.any_memory = true;
            w.ask.no_overlap = true;
            w.ask.use.precision = TUTTI_PRECISION_FP16;
            CHECK_OK(tutti_accelerator_find("a100", &w.ask.use.accelerator, &err), err);
            CHECK_OK(tutti_framework_find("pytorch", &w.ask.use.framework, &err), err);
            a = predict(&w);
            tutti_parallel_share_of(&w.parallel, w.model, 0, &share);
            hand = tensor * 2 * (n - 1) / n * 4.0 * (double)share.dense / machines[i].out;
            seen = (double)a.split.data_ps * 1e-12;
            printf("%s tp %u: %.4f s, by hand %.4f\n", machines[i].spec, tensor, seen, hand);
            CHECK(seen > 0.75 * hand && seen < machines[i].most * hand);
            tutti_parallel_answer_free(&a);
            close_world(&w);
        }
    }
}

/* Four of eight GPUs are no board of four: NVSwitch, a PCIe switch and a card each stay. */
TEST(a_half_of_a_board_keeps_its_switches)
{
    static const struct {
        const char *spec;
        uint32_t nvlink_gb; /* from a GPU to its NVSwitches, a second */
        uint32_t pcie;      /* switches of four GPUs */
    } boards[] = {{"host:gpu=h100,gpus=8,nodes=2,net=efa", 450, 4},
                  {"host:gpu=a100,gpus=8,nodes=2", 300, 2}};

    for (size_t i = 0; i < sizeof(boards) / sizeof(boards[0]); i++) {
        struct tutti_topo *whole = machine(boards[i].spec);
        struct tutti_topo *part = NULL;
        uint64_t nvlink = 0;
        uint32_t pcie = 0;
        char name[TUTTI_NODE_NAME_BYTES];

        CHECK_INT(tutti_part_of_hosts(whole, 4, 2, &part), 1);
        CHECK_INT(part->rank_count, 8);
        for (uint32_t n = 0; n < part->node_count; n++)
            pcie += tutti_topo_node(part, n).host == 0 &&
                    strncmp(tutti_topo_node_name(part, n, name), "pcie", 4) == 0;
        CHECK_INT(pcie, boards[i].pcie);
        for (uint32_t l = 0; l < part->link_count; l++) {
            const struct tutti_link link = tutti_topo_link(part, l);

            if (link.from == tutti_topo_rank_node(part, 0) && link.kind == TUTTI_LINK_NVLINK &&
                tutti_topo_node(part, link.to).kind == TUTTI_NODE_SWITCH)
                nvlink += link.bytes_per_s;
        }
        CHECK_INT(nvlink, boards[i].nvlink_gb * UINT64_C(1000000000));
        tutti_topo_free(part);
        tutti_topo_free(whole);
    }
}

/* ---- what is asked --------------------------------------------------------------------------- */

static struct tutti_parallel_split split_of(const struct world *w)
{
    struct tutti_parallel_answer a = predict(w);

    tutti_parallel_answer_free(&a);
    return a.split;
}

/* FSDP without overlap: two all-gathers of each layer a micro-batch, one where weights are kept,
 * and a reduce-scatter, whatever the device takes. With overlap it takes less. */
TEST(sharded_layers_wait_for_each_other_without_overlap)
{
    struct tutti_parallel_split beside;
    struct tutti_parallel_split twice;
    struct tutti_parallel_split once;
    struct tutti_parallel_split slow;
    struct world w;

    open_world(
        &w, "dgx-h100:nodes=2,nicbw=20GB/s", "llama3-8b",
        (struct tutti_parallel){.data = 16, .sharding = TUTTI_SHARD_ZERO3, .micro_batches = 3});
    w.ask.any_memory = true;
    beside = split_of(&w);
    w.ask.no_overlap = true;
    twice = split_of(&w);
    CHECK(twice.gather_ps + twice.data_ps > beside.gather_ps + beside.data_ps);
    w.ask.pace = 2;
    slow = split_of(&w);
    CHECK_INT(slow.gather_ps, twice.gather_ps);
    CHECK_INT(slow.data_ps, twice.data_ps);
    w.ask.pace = 0;
    w.parallel.keep_weights = true;
    once = split_of(&w);
    CHECK_INT(twice.gather_ps, 2 * once.gather_ps);
    w.parallel.micro_batches = 6;
    CHECK_INT(split_of(&w).gather_ps, 2 * once.gather_ps);
    close_world(&w);
}

/* An algorithm is of all-reduces of gradients, not of those within layers. */
TEST(an_algorithm_is_of_gradients)
{
    struct tutti_parallel_split usual;
    struct tutti_parallel_split named;
    struct world w;

    open_world(&w, "dgx-h100:nodes=2", "llama3-8b",
               (struct tutti_parallel){.tensor = 8, .data = 2});
    w.ask.any_memory = true;
    w.ask.no_overlap = true;
    usual = split_of(&w);
    w.ask.algorithm = "one-shot";
    named = split_of(&w);
    CHECK_INT(named.tensor_ps, usual.tensor_ps);
    CHECK(named.data_ps != usual.data_ps);
    close_world(&w);
}

/* A model that nothing divides takes what one device takes. */
TEST(one_rank_is_one_device)
{
    const struct tutti_framework *frameworks;
    size_t count;

    frameworks = tutti_frameworks(&count);
    for (size_t i = 0; i < count; i++) {
        struct tutti_train_ask ask = {.size = sizeof(ask)};
        struct tutti_strategy strategy;
        struct tutti_train_answer one = {.step_ps = -1};
        struct tutti_err err = {""};
        struct tutti_parallel_answer a;
        struct world w;

        open_world(&w, "dgx-h100:gpus=1", "gpt2", (struct tutti_parallel){.data = 1});
        w.ask.use.framework = &frameworks[i];
        a = predict(&w);
        CHECK_OK(tutti_strategy_named("onedevice", &strategy, &err), err);
        ask.topo = w.topo;
        ask.model = w.model;
        ask.strategy = &strategy;
        ask.use = w.ask.use;
        ask.use.batch = 1;
        ask.optimizer = TUTTI_OPTIMIZER_ADAM;
        ask.prefetch = 1;
        CHECK_OK(tutti_train_predict(&ask, &one, &err), err);
        CHECK(a.step_ps >= one.step_ps - 2 && a.step_ps <= one.step_ps + 2); /* rounded apart */
        tutti_parallel_answer_free(&a);
        close_world(&w);
    }
}
