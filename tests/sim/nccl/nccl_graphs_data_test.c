/* NCCL's graphs of real machines, from their topology XML: as the golden file says, and the same
 * for hand-written XML as for the hosts of the vectors. */

#include "sim/nccl.h"
#include "tests/folder.h"
#include "tests/runtime/nccl_hosts.h"
#include "tests/test.h"
#include "tests/traces/nccl_xml.h"
#include "topo/hardware.h"

enum { TEXT_BYTES = 256 };

static const char *const graph_names[] = {"ring", "tree", "chain", "nvls", "direct"};

static void print_graph(FILE *out, const char *name, const struct tutti_nccl_graph *graph)
{
    if (graph->channels_found == 0)
        return;
    fprintf(out, "; %s %ux%g/%g %s/%s%s%s%s", name, graph->channels_found, graph->bw_intra_GBps,
            graph->bw_inter_GBps,
            tutti_nccl_path_name((enum tutti_nccl_path_type)graph->type_intra),
            tutti_nccl_path_name((enum tutti_nccl_path_type)graph->type_inter),
            graph->same_channels ? " same" : "", graph->cross_nic == 2 ? " crossNic2" : "",
            graph->collapsed ? " collapsed" : "");
}

/* Every rank once on every channel, and a ring's channels on ports that are there. */
static void check_channels(const struct tutti_hardware *hw, const struct tutti_nccl_graph *graph)
{
    for (uint32_t c = 0; c < graph->channel_count; c++) {
        uint64_t seen = 0;

        for (uint32_t g = 0; g < graph->gpu_count; g++) {
            uint32_t rank = graph->gpus[(size_t)c * graph->gpu_count + g];

            CHECK(rank < hw->gpu_count && (seen & UINT64_C(1) << rank) == 0);
            seen |= UINT64_C(1) << rank;
        }
        if (graph->nets != NULL)
            CHECK(graph->nets[2 * c] < hw->net_count && graph->nets[2 * c + 1] < hw->net_count);
    }
}

static void print_comm(FILE *out, const struct tutti_hardware *hw, uint32_t hosts)
{
    struct tutti_nccl_comm_params params = {.hardware = hw, .host_count = hosts};
    struct tutti_nccl_comm *comm = NULL;
    struct tutti_err err = {""};

    if (tutti_nccl_comm_new(&params, &comm, &err) != 0) {
        fprintf(out, "  %u: refused: %s\n", hosts, err.text);
        return;
    }
    fprintf(out, "  %u: %u nodes, %u channels, max %.1f, total %.1f", hosts, comm->node_count,
            comm->channel_count, comm->max_bw_GBps, comm->total_bw_GBps);
    for (int g = 0; g < TUTTI_GRAPH_COUNT; g++) {
        print_graph(out, graph_names[g], &comm->graphs[g]);
        check_channels(hw, &comm->graphs[g]);
    }
    fputc('\n', out);
    tutti_nccl_comm_free(comm);
}

TEST(graphs_of_real_machines_are_as_the_golden_file_says)
{
    size_t count;
    char **files = list_files(TUTTI_DATA_DIR "/topo-xml", ".xml", &count);
    char *text = NULL;
    size_t bytes = 0;
    FILE *out;

    if (!tutti_nccl_xml_available() || count == 0)
        free_files(files, count);
    if (!tutti_nccl_xml_available())
        SKIP("this build is without libexpat");
    if (count == 0)
        SKIP("no XML files in " TUTTI_DATA_DIR "/topo-xml");
    out = open_memstream(&text, &bytes);
    for (size_t i = 0; i < count; i++) {
        struct tutti_err err = {""};
        char path[1024];
        struct tutti_topo *topo;

        snprintf(path, sizeof(path), "%s/topo-xml/%s", TUTTI_DATA_DIR, files[i]);
        topo = load(path, files[i], &err);
        if (topo != NULL && topo->hardware != NULL) {
            fprintf(out, "%s: %u gpus, %u ports\n", files[i], topo->hardware->gpu_count,
                    topo->hardware->net_count);
            print_comm(out, topo->hardware, 1);
            print_comm(out, topo->hardware, 2);
        }
        tutti_topo_free(topo);
    }
    free_files(files, count);
    fclose(out);
    test_golden("nccl_graphs.txt", text);
    free(text);
}

/* The vectors' hosts, built by hand in nccl_hosts.h, and their XML give the same communicators. */
TEST(hosts_by_hand_are_those_of_the_handwritten_files)
{
    static const struct {
        const char *file, *host;
    } pairs[] = {
        {"h100x8", "H100x8"}, {"h100x4", "H100x4"},  {"h100x2", "H100x2"},   {"a100x8", "A100x8s"},
        {"b200x8", "B200x8"}, {"dgxa100", "A100x8"}, {"dgx1v", "V100x8"},    {"l40x4", "L40x4"},
        {"l40x8", "L40x8"},   {"l40x2amd", "L40x2"}, {"a100pair", "A100x2"}, {"one90sock", "ONE90"},
    };
    int found = 0;

    if (!tutti_nccl_xml_available())
        SKIP("this build is without libexpat");
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        char *texts[2] = {NULL, NULL};
        size_t bytes;
        struct tutti_err err = {""};
        struct tutti_topo *topo;
        struct host host;
        char path[1024];
        FILE *out;

        snprintf(path, sizeof(path), "%s/topo-xml/handwritten/%s.xml", TUTTI_DATA_DIR,
                 pairs[i].file);
        topo = load(path, pairs[i].file, &err);
        if (topo == NULL)
            continue;
        found++;
        CHECK(host_named(&host, pairs[i].host));
        for (int from_file = 0; from_file < 2; from_file++) {
            out = open_memstream(&texts[from_file], &bytes);
            for (uint32_t hosts = 1; hosts <= 2; hosts++)
                print_comm(out, from_file ? topo->hardware : host_hardware(&host), hosts);
            fclose(out);
        }
        CHECK_TEXT(texts[1], texts[0]);
        free(texts[0]);
        free(texts[1]);
        tutti_topo_free(topo);
    }
    if (found == 0)
        SKIP("no XML files in " TUTTI_DATA_DIR "/topo-xml/handwritten");
}
