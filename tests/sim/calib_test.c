/* Calibrations: read, printed, asked by name, and put together for machines. */
#include <math.h>

#include "runtime/random.h"
#include "runtime/status.h"
#include "sim/calib.h"
#include "tests/machines.h"
#include "tests/test.h"
#include "topo/topo.h"

static struct tutti_calib *parse(const char *text)
{
    struct tutti_calib *calib = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_calib_parse("test", text, strlen(text), &calib, &err), err);
    return calib;
}

static double value_of(const struct tutti_calib *calib, const char *name)
{
    const struct tutti_calib_value *value = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_calib_get(calib, name, &value, &err), err);
    return value != NULL ? value->value : NAN;
}

/* ---- text ------------------------------------------------------------------------------------ */

static const char SMALL[] = "# a comment\n"
                            "calibration of two machines\n"
                            "source fit   six logs, by least squares # and a comment\n"
                            "\n"
                            "  v100.nvlink.simple.lane_GBps\t20.5\n"
                            "h100.nvswitch.ll.step_us 0.62 0.6 0.65 fit\r\n"
                            "any.ib.ll128.link_percent 92.5 fit # of all flows";

TEST(a_text_is_read_and_printed_in_order)
{
    struct tutti_calib *calib = parse(SMALL);
    const struct tutti_calib_value *value = NULL;
    struct tutti_err err = {""};
    char *text = NULL;

    REQUIRE(calib != NULL);
    CHECK_TEXT(tutti_calib_title(calib), "of two machines");
    CHECK_TEXT(tutti_calib_source(calib, "fit"), "six logs, by least squares");
    CHECK_OK(tutti_calib_get(calib, "h100.nvswitch.ll.step_us", &value, &err), err);
    REQUIRE(value != NULL);
    CHECK(fabs(value->value - 0.62) < 1e-15 && fabs(value->low - 0.6) < 1e-15);
    CHECK_TEXT(value->source, "fit");
    CHECK(isnan(value_of(calib, "h100.nvlink.ll.step_us"))); /* just this name */
    CHECK_OK(tutti_calib_print(calib, &text, &err), err);
    CHECK_TEXT(text, "calibration of two machines\n"
                     "source fit six logs, by least squares\n"
                     "any.ib.ll128.link_percent 92.5 fit\n"
                     "v100.nvlink.simple.lane_GBps 20.5\n"
                     "h100.nvswitch.ll.step_us 0.62 0.6 0.65 fit\n");
    free(text);
    tutti_calib_free(calib);
}

TEST(what_is_wrong_is_said_with_its_line)
{
    static const struct {
        const char *text;
        const char *says;
    } cases[] = {
        {"h100.nvswitch.ll.step_us",
         "test: line 1: 'h100.nvswitch.ll.step_us' stands with no value "
         "(NAME VALUE [LOW HIGH] [SOURCE])"},
        {"\nh100.nvswitch.ll.step_us 1us", "test: line 2: '1us' is no number (as 0.62; the name "
                                           "says the unit)"},
        {"h100.nvswitch.ll.step_us 1 2", "test: line 1: '2' stands where a source may (NAME VALUE "
                                         "[LOW HIGH] [SOURCE])"},
        {"any.any.ll.step_us 1 2 3",
         "test: line 1: any.any.ll.step_us is '1' of '2' to '3' (an interval that holds it)"},
        {"any.any.ll.step_us 1 0 3 fit",
         "test: line 1: any.any.ll.step_us comes of 'fit' (a source that was named before)"},
        {"any.any.ll.step_us 1 0 3 fit fit",
         "test: line 1: 'any.any.ll.step_us' stands with too many words (NAME VALUE [LOW HIGH] "
         "[SOURCE])"},
        {"any.any.ll.step_us -1", "test: line 1: any.any.ll.step_us is '-1' (0 to 1e+06)"},
        {"any.any.ll.link_percent 0",
         "test: line 1: any.any.ll.link_percent is '0' (more than 0 to 100)"},
        {"any.any.ll.step_us nan", "test: line 1: 'nan' is no number (as 0.62; the name says the "
                                   "unit)"},
        {"any.any.ll.step_us 1\nany.any.ll.step_us 1",
         "test: line 2: 'any.any.ll.step_us' is given twice (once)"},
        {"any.any.ll.step 1",
         "test: line 1: unknown quantity 'step' (did you mean 'step_us'? all: launch_us rank_us "
         "channel_us early_channel_us step_us slice_us lane_GBps link_percent "
         "p2p_launch_us p2p_step_us p2p_GBps p2p_percent)"},
        {"any.any.ll256.step_us 1", "test: line 1: unknown protocol 'll256' (ll ll128 simple)"},
        {"any.wire.ll.step_us 1", "test: line 1: unknown link 'wire' (any nvlink nvswitch xgmi c2c "
                                  "ici generic pcie host root net nvls nvlstree cpunet peer "
                                  "ib roce efa slingshot tcp tcpx tcpxo dcn)"},
        {"any.root.simple.step_us 1",
         "test: line 1: 'any.root.simple.step_us' is a value that nothing "
         "asks for (of root: link_percent p2p_percent)"},
        {"h100.nvlstree.simple.step_us 1",
         "test: line 1: 'h100.nvlstree.simple.step_us' is a value that nothing asks for (of "
         "nvlstree: link_percent, of simple)"},
        {"h100.nvls.ll.launch_us 1",
         "test: line 1: 'h100.nvls.ll.launch_us' is a value that nothing asks for (of nvls: "
         "launch_us step_us slice_us lane_GBps link_percent, of simple)"},
        {"step_us 1", "test: line 1: 'step_us' names no parameter (GPU.LINK.PROTOCOL.QUANTITY, as "
                      "h100.nvswitch.ll.step_us)"},
        {"source fit", "test: line 1: a source without a text (source WORD TEXT)"},
        {"source 1st of all", "test: line 1: '1st' names no source (a letter, then letters, digits "
                              "and dashes, fewer than 32)"},
        {"source fit a\nsource fit b", "test: line 2: source 'fit' is given twice (once)"},
        {"calibration a\ncalibration b", "test: line 2: 'calibration' is given twice (once)"},
        {"any.any.ll.step_us 1\001", "test: line 1: byte '0x01' is no text"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tutti_calib *calib = NULL;
        struct tutti_err err = {""};

        CHECK_INT(tutti_calib_parse("test", cases[i].text, strlen(cases[i].text), &calib, &err),
                  -TUTTI_EINVAL);
        CHECK_TEXT(err.text, cases[i].says);
        CHECK(calib == NULL);
    }
}

static const char *any_name(struct tutti_random *random, char name[TUTTI_CALIB_NAME_BYTES])
{
    static const char *const protocols[] = {"ll", "ll128", "simple"};
    size_t gpus = 0;
    size_t links = 0;

    while (tutti_calib_gpu_name(gpus) != NULL)
        gpus++;
    while (tutti_calib_link_name(links) != NULL)
        links++;
    for (;;) {
        const char *link = tutti_calib_link_name((size_t)tutti_random_below(random, links));

        if (strstr("root peer nvls nvlstree", link) != NULL)
            continue; /* which have few values */
        snprintf(name, TUTTI_CALIB_NAME_BYTES, "%s.%s.%s.%s",
                 tutti_calib_gpu_name((size_t)tutti_random_below(random, gpus)), link,
                 protocols[tutti_random_below(random, 3)],
                 tutti_calib_quantity_name((size_t)tutti_random_below(random, 6)));
        return name;
    }
}

static struct tutti_calib *draw(struct tutti_random *random)
{
    struct tutti_calib *calib = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_calib_new(&calib, &err), err);
    if (tutti_random_below(random, 2) == 0)
        CHECK_OK(tutti_calib_set_title(calib, "drawn  at random", &err), err);
    CHECK_OK(tutti_calib_set_source(calib, "dice", "a cube", &err), err);
    for (uint64_t more = tutti_random_below(random, 40); more > 0; more--) {
        char name[TUTTI_CALIB_NAME_BYTES];
        double value = 100 * tutti_random_unit(random) + 1e-9;
        bool known = tutti_random_below(random, 2) == 0;
        struct tutti_calib_value drawn = {
            .value = value, .low = known ? value / 2 : NAN, .high = known ? value * 2 : NAN};

        if (tutti_random_below(random, 2) == 0)
            snprintf(drawn.source, sizeof(drawn.source), "dice");
        CHECK_OK(tutti_calib_set(calib, any_name(random, name), &drawn, &err), err);
        CHECK(fabs(value_of(calib, name) - value) <= 0);
        if (tutti_random_below(random, 8) > 0)
            continue;
        CHECK_OK(tutti_calib_unset(calib, name, &err), err);
        CHECK(isnan(value_of(calib, name)));
    }
    return calib;
}

TEST(what_is_printed_is_read_back)
{
    struct tutti_random random;

    tutti_random_seed(&random, test_seed);
    for (int i = 0; i < 300; i++) {
        struct tutti_calib *calib = draw(&random);
        struct tutti_calib *copy = NULL;
        struct tutti_calib *again;
        struct tutti_err err = {""};
        char *texts[3] = {NULL, NULL, NULL};

        CHECK_OK(tutti_calib_print(calib, &texts[0], &err), err);
        CHECK_OK(tutti_calib_copy(calib, &copy, &err), err);
        CHECK_OK(tutti_calib_print(copy, &texts[1], &err), err);
        again = parse(texts[0]);
        REQUIRE(again != NULL);
        CHECK_OK(tutti_calib_print(again, &texts[2], &err), err);
        CHECK_TEXT(texts[1], texts[0]);
        CHECK_TEXT(texts[2], texts[0]);
        for (int k = 0; k < 3; k++)
            free(texts[k]);
        tutti_calib_free(calib);
        tutti_calib_free(copy);
        tutti_calib_free(again);
    }
}

/* ---- machines -------------------------------------------------------------------------------- */

static const struct tutti_calib_machine two_hosts = {
    .gpu = "gb200",
    .links = {[TUTTI_HOP_NVLINK] = "nvswitch", [TUTTI_HOP_PCI] = "pcie", [TUTTI_HOP_NET] = "ib"},
    .routes = {[TUTTI_HOP_NVLINK] = true, [TUTTI_HOP_NET] = true},
    .slowest = TUTTI_HOP_NET,
    .rank_count = 8,
};

TEST(the_nearest_class_with_a_value_counts)
{
    struct tutti_calib *calib = parse("any.any.ll.launch_us 6\n"
                                      "b200.any.ll.launch_us 5\n"
                                      "any.net.ll.launch_us 7.5\n" /* the link comes first */
                                      "any.any.ll.rank_us 0.25\n"
                                      "b200.ib.ll.channel_us 9\n" /* not within a host */
                                      "b200.any.ll.channel_us 0.125\n"
                                      "any.nvlink.ll.early_channel_us 1.5\n"
                                      "any.nvlink.ll.step_us 1\n"
                                      "h100.nvswitch.ll.step_us 2\n"
                                      "b200.nvlink.ll.step_us 3\n"
                                      "gb200.ib.ll.slice_us 0.5\n"
                                      "gb200.ib.ll.lane_GBps 12.5\n"
                                      "any.ib.ll.p2p_launch_us 6.5\n"
                                      "any.nvlink.ll.p2p_step_us 1.25\n"
                                      "any.net.ll.p2p_GBps 25\n"
                                      "b200.pcie.ll.p2p_percent 50\n"
                                      "gb200.pcie.ll.link_percent 80\n"
                                      "any.any.simple.step_us 4\n");
    const struct tutti_calib *layers[] = {calib};
    struct tutti_calibrated made = tutti_calib_compose(layers, 1, &two_hosts);
    const struct tutti_protocol *ll = &made.protocols[0];
    const struct tutti_protocol *simple = &made.protocols[2];
    struct tutti_protocol messages = tutti_protocol_of_messages(ll);

    CHECK_TEXT(ll->name, "ll");
    CHECK_INT(ll->wire_num, 2);
    CHECK_INT(ll->launch_ps, 7500000 + 8 * 250000);
    CHECK_INT(ll->channel_ps, 125000);
    CHECK_INT(ll->early_channel_ps, 1500000);
    CHECK_INT(ll->message_ps[TUTTI_HOP_NVLINK], 3000000);
    CHECK_INT(ll->message_ps[TUTTI_HOP_NET], 0);
    CHECK_INT(ll->slice_ps[TUTTI_HOP_NET], 500000);
    CHECK_INT(ll->lane_bytes_per_s[TUTTI_HOP_NET], 12500000000);
    CHECK_INT(ll->link_ppm[TUTTI_HOP_PCI], 800000);
    CHECK_INT(ll->link_ppm[TUTTI_HOP_NET], 0);
    CHECK_INT(messages.lane_bytes_per_s[TUTTI_HOP_NET], 25000000000); /* in place of the other */
    CHECK_INT(messages.slice_ps[TUTTI_HOP_NET], 0);                   /* which is within it */
    CHECK_INT(messages.link_ppm[TUTTI_HOP_PCI], 400000);              /* half of 80 percent */
    CHECK_INT(messages.launch_ps, 6500000);                           /* ranks or not */
    CHECK_INT(messages.message_ps[TUTTI_HOP_NVLINK], 1250000);
    CHECK_INT(simple->launch_ps, 0);
    CHECK_INT(simple->message_ps[TUTTI_HOP_NVLINK], 4000000);
    CHECK_INT(simple->message_ps[TUTTI_HOP_NET], 4000000);
    CHECK_INT(made.value_count, 14);
    CHECK_INT(made.general_count, 11);
    CHECK_TEXT(made.text,
               "gb200 nvswitch pcie ib: 14 values of no source, 11 of 14 for more general "
               "classes");
    tutti_calib_free(calib);
}

TEST(messages_cost_what_is_said_of_them_else_what_all_do)
{
    struct tutti_protocol all = {
        .launch_ps = 9000000,
        .message_ps = {[TUTTI_HOP_NET] = 8000000},
        .link_ppm = {
            [TUTTI_HOP_PCI] = 800000, [TUTTI_HOP_ROOT] = 600000, [TUTTI_HOP_NVLINK] = 700000}};
    struct tutti_protocol messages = tutti_protocol_of_messages(&all);

    CHECK_INT(messages.launch_ps, 9000000);
    CHECK_INT(messages.message_ps[TUTTI_HOP_NET], 8000000);
    CHECK_INT(messages.link_ppm[TUTTI_HOP_ROOT], 600000);
    all.p2p_launch_ps = 6000000;
    all.p2p_message_ps[TUTTI_HOP_NET] = 5000000;
    all.p2p_link_ppm[TUTTI_HOP_ROOT] = 900000;
    all.p2p_link_ppm[TUTTI_HOP_NVLINK] = 900000;
    messages = tutti_protocol_of_messages(&all);
    CHECK_INT(messages.launch_ps, 6000000);
    CHECK_INT(messages.message_ps[TUTTI_HOP_NET], 5000000);
    CHECK_INT(messages.link_ppm[TUTTI_HOP_ROOT], 720000); /* of what PCIe carries elsewhere */
    CHECK_INT(messages.link_ppm[TUTTI_HOP_NVLINK], 630000);
    CHECK_INT(messages.link_ppm[TUTTI_HOP_PCI], 800000);
}

/* A block of threads passes data up and down at once; other ways and what binds more stay. */
TEST(trees_move_no_more_over_nvlink_than_a_block_can)
{
    struct tutti_protocol all = {.name = "simple", .wire_num = 1, .wire_den = 1};
    struct tutti_protocol tree = tutti_protocol_of_channels(&all, 12000);

    CHECK_INT(tree.lane_bytes_per_s[TUTTI_HOP_NVLINK], 12000);
    CHECK_INT(tree.lane_bytes_per_s[TUTTI_HOP_XGMI], 12000);
    CHECK_INT(tree.lane_bytes_per_s[TUTTI_HOP_PCI], 0);
    CHECK_INT(tree.lane_bytes_per_s[TUTTI_HOP_NET], 0);
    all.lane_bytes_per_s[TUTTI_HOP_NVLINK] = 9000;
    CHECK_INT(tutti_protocol_of_channels(&all, 12000).lane_bytes_per_s[TUTTI_HOP_NVLINK], 9000);
}

static bool asks_for(const struct tutti_calib_machine *machine, const char *name)
{
    struct tutti_calib *none = parse("");
    struct tutti_calib_use use;
    bool found = false;

    for (size_t i = 0; tutti_calib_use(none, machine, i, &use); i++)
        found |= strcmp(use.name, name) == 0;
    tutti_calib_free(none);
    return found;
}

TEST(threads_that_feed_switches_have_a_rate_of_their_own)
{
    struct tutti_calib *calib = parse("h100.nvls.simple.lane_GBps 17.5\n"
                                      "any.nvswitch.simple.p2p_GBps 21\n");
    const struct tutti_calib *layers[] = {calib};
    struct tutti_topo *host = machine("dgx-h100");
    struct tutti_calib_machine alone = tutti_calib_machine_of(host);
    struct tutti_protocol simple = tutti_calib_compose(layers, 1, &alone).protocols[2];

    CHECK_INT((int64_t)simple.nvls.lane_bytes_per_s, 17500000000);
    CHECK_INT((int64_t)simple.p2p_lane_bytes_per_s[TUTTI_HOP_NVLINK], 21000000000);
    CHECK(asks_for(&alone, "h100.nvls.simple.lane_GBps"));
    tutti_topo_free(host);
    tutti_calib_free(calib);
}

/* NVLSTree has a share of NVLink's rate of its own, which a host alone does not ask for. */
TEST(what_switches_add_up_between_hosts_has_its_own_share)
{
    struct tutti_calib *calib = parse("h100.nvls.simple.link_percent 80\n"
                                      "any.nvlstree.simple.link_percent 50\n");
    struct tutti_calib *one = parse("any.nvls.simple.link_percent 70\n");
    const struct tutti_calib *layers[] = {calib, one};
    struct tutti_topo *hosts = machine("dgx-h100:nodes=2");
    struct tutti_topo *host = machine("dgx-h100");
    struct tutti_calib_machine two = tutti_calib_machine_of(hosts);
    struct tutti_calib_machine alone = tutti_calib_machine_of(host);

    CHECK_INT(tutti_calib_compose(layers, 1, &two).protocols[2].nvls.link_ppm, 800000);
    CHECK_INT(tutti_calib_compose(layers, 1, &two).protocols[2].nvls.tree_link_ppm, 500000);
    CHECK(asks_for(&two, "h100.nvlstree.simple.link_percent"));
    CHECK(!asks_for(&alone, "h100.nvlstree.simple.link_percent"));
    /* What is said of NVLS alone holds between hosts as well. */
    CHECK_INT(tutti_calib_compose(layers + 1, 1, &two).protocols[2].nvls.tree_link_ppm, 700000);
    tutti_topo_free(host);
    tutti_topo_free(hosts);
    tutti_calib_free(one);
    tutti_calib_free(calib);
}

TEST(a_lower_layer_has_what_is_missing)
{
    struct tutti_calib *calib = parse("source fit f\nany.nvlink.ll.step_us 1 fit\n");
    struct tutti_calib *base = parse("calibration b\n"
                                     "gb200.nvswitch.ll.step_us 5\n"
                                     "any.any.ll.launch_us 6\n");
    struct tutti_calib *last = parse("calibration c\n"
                                     "gb200.ib.ll.launch_us 7\n"
                                     "any.ib.ll.step_us 8\n");
    const struct tutti_calib *layers[] = {calib, base, last};
    struct tutti_calibrated made = tutti_calib_compose(layers, 3, &two_hosts);

    CHECK_INT(made.protocols[0].message_ps[TUTTI_HOP_NVLINK], 1000000); /* the first of them */
    CHECK_INT(made.protocols[0].launch_ps, 6000000);                    /* however general it is */
    CHECK_INT(made.protocols[0].message_ps[TUTTI_HOP_NET], 8000000);
    CHECK_INT(made.value_count, 3);
    CHECK_INT(made.lower_count, 2);
    CHECK_TEXT(made.text,
               "gb200 nvswitch pcie ib: 1 value of fit, 1 of 'b', 1 of 'c', 3 of 3 for more "
               "general classes");
    tutti_calib_free(calib);
    tutti_calib_free(base);
    tutti_calib_free(last);
}

TEST(all_that_a_machine_asks_for_can_be_gone_through)
{
    struct tutti_calib *calib = parse("any.nvlink.ll.step_us 1\n");
    struct tutti_calib_use use;
    size_t count = 0;

    for (; tutti_calib_use(calib, &two_hosts, count, &use); count++) {
        const struct tutti_calib_value *value = NULL;
        struct tutti_err err = {""};

        CHECK_OK(tutti_calib_get(calib, use.name, &value, &err), err); /* it is a name */
        if (strcmp(use.name, "gb200.nvswitch.ll.step_us") == 0) {
            REQUIRE(use.value != NULL);
            CHECK_TEXT(use.found, "any.nvlink.ll.step_us");
        } else {
            CHECK_TEXT(use.found, "");
        }
        if (count == 0)
            CHECK_TEXT(use.name, "gb200.nvswitch.ll.channel_us");
    }
    /* both launches, rank and both of channels; both steps, slice and both lanes of 2 kinds of
     * routes; both shares of 3 kinds of links */
    CHECK_INT(count, 3 * (5 + 2 * 5 + 2 * 3));
    tutti_calib_free(calib);
}

/* They stand in a table of C and in a file: what the one says the other says, on any machine. */
TEST(the_figures_of_nccl_are_those_of_the_protocols)
{
    static const char *const specs[] = {
        "dgx-1v",       "dgx-a100:nodes=2", "dgx-h100:nodes=4",        "mi300x",
        "tpu-v4:2x2x2", "ring:n=4",         "fattree:arity=3,levels=2"};
    struct tutti_calib *calib = NULL;
    struct tutti_err err = {""};
    size_t count;
    const struct tutti_protocol *known = tutti_protocols(&count);

    CHECK_OK(tutti_calib_nccl(&calib, &err), err);
    REQUIRE(calib != NULL);
    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        struct tutti_topo *topo = machine(specs[i]);
        struct tutti_calib_machine is = tutti_calib_machine_of(topo);
        const struct tutti_calib *layers[] = {calib};
        struct tutti_calibrated made = tutti_calib_compose(layers, 1, &is);

        for (size_t p = 0; p < count; p++)
            CHECK(tutti_protocol_same(&made.protocols[p], &known[p]));
        tutti_topo_free(topo);
    }
    tutti_calib_free(calib);
}

/* In which NCCL gets less than the wires' rate: see the tables of traces/measured. */
TEST(what_is_compiled_in_was_fitted_to_measurements)
{
    struct tutti_topo *topo = machine("dgx-h100");
    struct tutti_calibrated made;
    struct tutti_err err = {""};

    CHECK_OK(tutti_calibrated_for(topo, &made, &err), err);
    CHECK(strstr(made.text, "h100 nvswitch") != NULL);
    CHECK_INT(made.lower_count, 0);
    CHECK(made.protocols[2].link_ppm[TUTTI_HOP_NVLINK] > TUTTI_PPM / 2);
    CHECK(made.protocols[2].link_ppm[TUTTI_HOP_NVLINK] < TUTTI_PPM);
    tutti_topo_free(topo);
}

TEST(a_machine_that_nothing_was_fitted_to_goes_by_general_classes)
{
    struct tutti_topo *topo = machine("tpu-v4:2x2x2");
    struct tutti_calibrated made;
    struct tutti_err err = {""};

    CHECK_OK(tutti_calibrated_for(topo, &made, &err), err);
    CHECK_INT(made.general_count, made.value_count);
    tutti_topo_free(topo);
}

TEST(a_machine_is_known_by_its_parts)
{
    struct tutti_topo *topo = machine("dgx-h100:nodes=2");
    struct tutti_calib_machine is = tutti_calib_machine_of(topo);

    CHECK_TEXT(is.links[TUTTI_HOP_NVLINK], "nvswitch");
    CHECK(is.routes[TUTTI_HOP_NVLINK]);
    CHECK(is.routes[TUTTI_HOP_NET]);
    CHECK(!is.routes[TUTTI_HOP_PCI]); /* it has PCIe, but only on the way to the network */
    CHECK(!is.routes[TUTTI_HOP_HOST]);
    CHECK_INT(is.slowest, TUTTI_HOP_NET);
    CHECK_INT(is.rank_count, 16);
    tutti_topo_free(topo);
    topo = machine("host:gpu=a100-pcie,gpus=4,nodes=2,net=tcpx");
    is = tutti_calib_machine_of(topo);
    CHECK_TEXT(is.links[TUTTI_HOP_PCI], "pcie");
    CHECK_TEXT(is.links[TUTTI_HOP_ROOT], "root"); /* cards at the CPU */
    CHECK_TEXT(is.links[TUTTI_HOP_HOST], "host");
    CHECK_TEXT(is.links[TUTTI_HOP_NET], "tcpx");
    CHECK(!is.routes[TUTTI_HOP_ROOT]);
    tutti_topo_free(topo);
    topo = machine("dgx-1v");
    is = tutti_calib_machine_of(topo);
    CHECK_TEXT(is.links[TUTTI_HOP_NVLINK], "nvlink");
    tutti_topo_free(topo);
    topo = machine("mi300x");
    is = tutti_calib_machine_of(topo);
    CHECK_TEXT(is.links[TUTTI_HOP_XGMI], "xgmi");
    tutti_topo_free(topo);
    topo = machine("tpu-v4:2x2x2");
    is = tutti_calib_machine_of(topo);
    CHECK_TEXT(is.links[TUTTI_HOP_NVLINK], "ici");
    tutti_topo_free(topo);
}

/* NCCL keeps GPUDirect RDMA to NICs that no CPU is before, so that elsewhere the same wires are
 * another network. Sockets have no other way, and Grace is none before its GPU. */
TEST(a_nic_behind_a_cpu_is_a_network_of_its_own)
{
    static const struct {
        const char *spec, *net;
    } cases[] = {
        {"dgx-a100:nodes=2", "ib"},
        {"dgx-h100:net=efa,nodes=2", "efa"},
        {"host:gpu=l40s,gpus=1,nics=1,net=roce,nodes=2", "cpunet"},
        {"host:gpu=h100,switches=1,gpus=1,nics=1,net=ib,nodes=2", "ib"},
        {"host:gpu=h100,switches=1,gpus=1,nics=1,net=ib,gdr=no,nodes=2", "cpunet"},
        {"host:gpu=a10g,gpus=1,nics=1,net=tcp,nodes=2", "tcp"},
        {"host:gpu=gh200,gpus=4,nics=4,net=slingshot,nodes=2", "slingshot"},
        {"host:gpu=gb200,gpus=4,nics=4,net=ib,nodes=2", "ib"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tutti_topo *topo = machine(cases[i].spec);
        struct tutti_calib_machine is = tutti_calib_machine_of(topo);

        REQUIRE(is.links[TUTTI_HOP_NET] != NULL);
        CHECK_TEXT(is.links[TUTTI_HOP_NET], cases[i].net);
        tutti_topo_free(topo);
    }
}
