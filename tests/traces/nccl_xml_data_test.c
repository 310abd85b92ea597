/* NCCL topology XML of real machines: each file is read or refused as the golden summary says, and
 * NCCL's own figures of the hand-written machines come out. */
#include <math.h>

#include "runtime/status.h"
#include "sim/nccl.h"
#include "tests/folder.h"
#include "tests/test.h"
#include "tests/traces/nccl_xml.h"
#include "topo/hardware.h"
#include "topo/topo.h"
#include "traces/nccl_xml.h"

/* ---- summaries ---- */

/* "nvlink 8x370.8": how many cables of which kind and rate, one line a machine. */
static void print_links(FILE *out, const struct tutti_topo *topo)
{
    bool *told = calloc(topo->link_count + 1, sizeof(*told));

    for (int kind = 0; kind < TUTTI_LINK_KIND_COUNT; kind++) {
        bool first = true;

        for (uint32_t l = 0; l < topo->link_count; l++) {
            uint32_t same = 0;

            if (tutti_topo_link(topo, l).kind != kind || told[l])
                continue;
            for (uint32_t m = l; m < topo->link_count; m++) {
                if (tutti_topo_link(topo, m).kind == kind &&
                    tutti_topo_link(topo, m).bytes_per_s == tutti_topo_link(topo, l).bytes_per_s) {
                    told[m] = true;
                    same++;
                }
            }
            if (first)
                fprintf(out, "; %s", tutti_link_kind_name((enum tutti_link_kind)kind));
            fprintf(out, " %ux%g", same, (double)tutti_topo_link(topo, l).bytes_per_s / 1e9);
            first = false;
        }
    }
    free(told);
}

static void print_hardware(FILE *out, const struct tutti_hardware *hw)
{
    if (hw == NULL)
        fputs("; hardware not known", out);
    else
        fprintf(out, "; hardware%s %u cpus %u pcis %u gpus %u nvlinks %u c2cs %u nets",
                hw->rack > 1 ? " of a rack" : "", hw->cpu_count, hw->pci_count, hw->gpu_count,
                hw->nvlink_count, hw->c2c_count, hw->net_count);
}

static void print_summary(FILE *out, const char *name, const struct tutti_topo *topo)
{
    uint32_t counts[TUTTI_NODE_KIND_COUNT] = {0};

    for (uint32_t v = 0; v < topo->node_count; v++)
        counts[tutti_topo_node(topo, v).kind]++;
    fprintf(out, "%s: %u devices, %u hosts, %u switches, %u nics, %u cpus; links GB/s", name,
            topo->rank_count, topo->host_count, counts[TUTTI_NODE_SWITCH], counts[TUTTI_NODE_NIC],
            counts[TUTTI_NODE_CPU]);
    print_links(out, topo);
    if (topo->shape.order_count > 0)
        fprintf(out, "; %u rings", topo->shape.order_count);
    if (strstr(topo->source, "left out") != NULL)
        fprintf(out, "; %s", strstr(topo->source, "left out"));
    print_hardware(out, topo->hardware);
    fputc('\n', out);
}

static void check_round_trip(const struct tutti_topo *topo)
{
    struct tutti_topo *back = NULL;
    struct tutti_err err = {""};
    char *texts[2] = {NULL, NULL};

    CHECK_OK(tutti_topo_print(topo, &texts[0], &err), err);
    CHECK_OK(tutti_topo_parse(topo->name, texts[0], strlen(texts[0]), &back, &err), err);
    REQUIRE(back != NULL);
    CHECK_OK(tutti_topo_print(back, &texts[1], &err), err);
    CHECK_TEXT(texts[1], texts[0]);
    free(texts[0]);
    free(texts[1]);
    tutti_topo_free(back);
}

/* Every file of a folder: what it is, or why it was refused. */
static size_t print_folder(FILE *out, const char *dir, const char *prefix)
{
    size_t count;
    char **files = list_files(dir, ".xml", &count);

    for (size_t i = 0; i < count; i++) {
        struct tutti_err err = {""};
        char path[1024];
        char name[512];
        struct tutti_topo *topo;

        snprintf(path, sizeof(path), "%s/%s", dir, files[i]);
        snprintf(name, sizeof(name), "%s%s", prefix, files[i]);
        topo = load(path, name, &err);
        if (topo != NULL) {
            print_summary(out, name, topo);
            check_round_trip(topo);
        } else {
            fprintf(out, "refused: %s\n", err.text);
        }
        tutti_topo_free(topo);
    }
    free_files(files, count);
    return count;
}

TEST(every_real_file_is_read_or_refused_as_the_golden_file_says)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out;
    size_t count;

    if (!tutti_nccl_xml_available())
        SKIP("this build is without libexpat");
    out = open_memstream(&text, &bytes);
    count = print_folder(out, TUTTI_DATA_DIR "/topo-xml", "");
    count += print_folder(out, TUTTI_DATA_DIR "/topo-xml/handwritten", "handwritten/");
    fclose(out);
    printf("%zu XML files\n", count);
    if (count > 0)
        test_golden("topo_xml.txt", text);
    free(text);
    if (count == 0)
        SKIP("no XML files in " TUTTI_DATA_DIR "/topo-xml");
}

/* ---- NCCL's own figures ---- */

/* "max total" in MB/s of `hosts` such hosts, as model A sees them by the hardware in the file. */
static void check_bandwidths(const struct tutti_topo *topo, uint32_t hosts, int64_t max,
                             int64_t total)
{
    struct tutti_nccl_comm_params params = {.hardware = topo->hardware, .host_count = hosts};
    struct tutti_nccl_comm *comm = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_nccl_comm_new(&params, &comm, &err), err);
    REQUIRE(comm != NULL);
    if (max > 0)
        CHECK_INT(llround(comm->max_bw_GBps * 1000), max);
    CHECK_INT(llround(comm->total_bw_GBps * 1000), total);
    tutti_nccl_comm_free(comm);
}

/* What NCCL 2.28.9 itself made of these files, run on them without GPUs: "maxBw" and "totalBw" in
 * MB/s, on one node and, where it was asked, on several. 0: not asked. */
TEST(max_and_total_bandwidth_are_those_that_nccl_computed)
{
    static const struct {
        const char *file;
        int64_t max_one;
        int64_t max_several;
        int64_t total;
    } cases[] = {
        {"h100x8.xml", 370800, 48000, 370800}, {"h100x4.xml", 370800, 0, 370800},
        {"h100x2.xml", 370800, 0, 370800},     {"a100x8.xml", 240000, 24000, 240000},
        {"dgxa100.xml", 0, 24000, 240000},     {"b200x8.xml", 721800, 48000, 721800},
        {"l40x4.xml", 24000, 0, 24000},        {"l40x8.xml", 24000, 12500, 24000},
        {"l40x2amd.xml", 24000, 0, 24000},     {"a100pair.xml", 240000, 12500, 240000},
        {"one90sock.xml", 0, 1250, 48000},     {"dgx1v.xml", 40000, 12000, 120000},
    };
    size_t seen = 0;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]) && tutti_nccl_xml_available(); i++) {
        struct tutti_err err = {""};
        char path[1024];
        struct tutti_topo *topo;

        snprintf(path, sizeof(path), "%s/topo-xml/handwritten/%s", TUTTI_DATA_DIR, cases[i].file);
        topo = load(path, cases[i].file, &err);
        if (topo == NULL)
            continue;
        seen++;
        if (cases[i].max_one > 0)
            check_bandwidths(topo, 1, cases[i].max_one, cases[i].total);
        if (cases[i].max_several > 0)
            check_bandwidths(topo, 2, cases[i].max_several, cases[i].total);
        tutti_topo_free(topo);
    }
    CHECK(seen == 0 || seen == sizeof(cases) / sizeof(cases[0]));
    if (seen == 0)
        SKIP("no files in " TUTTI_DATA_DIR "/topo-xml/handwritten, or no libexpat");
}
