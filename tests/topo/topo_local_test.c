/* Machines read as `topo show local` reads them: facts of some that exist, put down as NVIDIA and
 * the kernel lay them out, become the machines that one knows. vm-h200 was read on such a machine,
 * by tests/gpu/run.sh. */
#include <errno.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/status.h"
#include "tests/folder.h"
#include "tests/test.h"
#include "topo/hardware.h"
#include "topo/hardware/graph.h"
#include "topo/local.h"
#include "topo/topo.h"
#include "traces/nccl_xml.h"

#define FOLDER TUTTI_SOURCE_DIR "/tests/topo/local/"

static const char *const machines[] = {"dgx-h100",   "dgx-1v", "workstation",
                                       "cloud-h100", "cpus",   "vm-h200"};
static unsigned hosts_seen; /* of XML files */

enum { MACHINES = sizeof(machines) / sizeof(machines[0]) };

static struct tutti_facts *parse(const char *text)
{
    struct tutti_facts *facts = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_facts_parse("own.facts", text, strlen(text), &facts, &err), err);
    return facts;
}

static struct tutti_topo *machine_of(struct tutti_facts *facts, uint32_t ranks)
{
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_topo_of_facts(facts, "it", ranks, &topo, &err), err);
    return topo;
}

static char *text_of(const struct tutti_topo *topo)
{
    char *text = NULL;

    if (topo == NULL || tutti_topo_print(topo, &text, NULL) < 0)
        return calloc(1, 1);
    return text;
}

TEST(each_machine_is_as_it_stands_in_its_golden_file)
{
    for (size_t m = 0; m < MACHINES; m++) {
        char path[512];
        char *text;
        char *printed;
        struct tutti_facts *facts;
        struct tutti_topo *topo;

        (void)snprintf(path, sizeof(path), FOLDER "%s.facts", machines[m]);
        text = test_read_file(path, NULL);
        facts = parse(text);
        topo = machine_of(facts, 0);
        printed = text_of(topo);
        (void)snprintf(path, sizeof(path), "topo-local-%s.txt", machines[m]);
        test_golden(path, printed);
        free(printed);
        /* What was parsed prints to the same, asked or not. */
        CHECK_OK(tutti_facts_print(facts, &printed, NULL), (struct tutti_err){""});
        CHECK_TEXT(printed, text);
        tutti_topo_free(topo);
        tutti_facts_free(facts);
        free(printed);
        free(text);
    }
}

/* ---- from files and from NVML -------------------------------------------------------------- */

static void make_parents(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(path, 0777) != 0 && errno != EEXIST)
            TEST_FAIL("cannot make '%s'", path);
        *slash = '/';
    }
}

/* A link needs its end to be there; the folder of a listing needs what is in it. */
static void put_down(const char *root, const char *name, const char *value)
{
    size_t length = strlen(name);
    char path[1024];
    char word[256];

    (void)snprintf(path, sizeof(path), "%s/%s", root, name);
    make_parents(path);
    if (name[length - 1] == '@') {
        char end[1024];

        (void)snprintf(end, sizeof(end), "%s/%s/", root, value);
        make_parents(end);
        end[strlen(end) - 1] = '\0';
        path[strlen(path) - 1] = '\0';
        (void)rmdir(path);
        CHECK_INT(symlink(end, path), 0);
        return;
    }
    if (name[length - 1] == '/') {
        for (const char *at = value; sscanf(at, "%255s", word) == 1;
             at = strstr(at, word) + strlen(word)) {
            char inside[1400];

            (void)snprintf(inside, sizeof(inside), "%s%s", path, word);
            (void)mkdir(inside, 0777);
        }
        return;
    }
    {
        FILE *file = fopen(path, "w");

        for (const char *c = value; file != NULL && *c != '\0'; c++)
            fputc(c[0] == '\\' && c[1] == 'n' ? (c++, '\n') : *c, file);
        if (file != NULL)
            fputc('\n', file);
        if (file == NULL || fclose(file) != 0)
            TEST_FAIL("cannot write '%s'", path);
    }
}

/* Links first: a file may lie behind one. */
static void put_all_down(const char *root, const char *text)
{
    for (int links = 1; links >= 0; links--) {
        char *copy = strdup(text);
        char *rest = NULL;

        for (char *line = strtok_r(copy, "\n", &rest); line != NULL;
             line = strtok_r(NULL, "\n", &rest)) {
            char *value = strstr(line, " = ");

            if (value == NULL || strncmp(line, "nvml/", 5) == 0)
                continue;
            *value = '\0';
            if ((value[-1] == '@') == (links == 1))
                put_down(root, line, value + 3);
        }
        free(copy);
    }
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info;
    (void)kind;
    (void)where;
    return remove(path);
}

TEST(folders_and_nvml_give_the_same_machine_as_their_facts)
{
    const char *nvml = getenv("TUTTI_NVML_STANDIN");

    if (nvml == NULL)
        SKIP("no stand-in for NVML was built");
    for (size_t m = 0; m < MACHINES; m++) {
        char path[512];
        char root[] = "/tmp/tutti-local-XXXXXX";
        struct tutti_topo_local_opts opts = {.size = sizeof(opts), .root = root, .nvml = nvml};
        struct tutti_facts *read = NULL;
        struct tutti_err err = {""};
        struct tutti_facts *facts;
        struct tutti_topo *topo;
        struct tutti_topo *known;
        char *text;
        char *seen;
        char *expected;

        REQUIRE(mkdtemp(root) != NULL);
        (void)snprintf(path, sizeof(path), FOLDER "%s.facts", machines[m]);
        text = test_read_file(path, NULL);
        put_all_down(root, text);
        CHECK_INT(setenv("TUTTI_STANDIN_FACTS", path, 1), 0);
        CHECK_OK(tutti_facts_read(&opts, &read, &err), err);
        facts = parse(text);
        topo = machine_of(read, 0);
        known = machine_of(facts, 0);
        seen = text_of(topo);
        expected = text_of(known);
        CHECK_TEXT(seen, expected);
        tutti_topo_free(topo);
        tutti_topo_free(known);
        tutti_facts_free(read);
        tutti_facts_free(facts);
        free(seen);
        free(expected);
        free(text);
        CHECK_INT(nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
    }
}

/* ---- beside NCCL's XML --------------------------------------------------------------------- */

/* The nodes and links of a machine, without what its devices are and who says so. */
static char *lines_of(const struct tutti_topo *topo)
{
    char *text = text_of(topo);
    char *kept = calloc(1, strlen(text) + 2);
    size_t used = 0;
    char *rest = NULL;

    for (char *line = strtok_r(text, "\n", &rest); line != NULL && kept != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(line, "topology ", 9) == 0 || strncmp(line, "source ", 7) == 0 ||
            strncmp(line, "net ", 4) == 0)
            continue;
        memcpy(kept + used, line, strlen(line));
        used += strlen(line);
        kept[used++] = '\n';
    }
    free(text);
    return kept;
}

/* A port outside PCI stands anywhere in a file, and here behind its NUMA node's functions. */
static bool has_port_outside(const struct tutti_hardware *hw)
{
    for (uint32_t n = 0; n < hw->net_count; n++)
        if (hw->nets[n].pci == TUTTI_HW_NONE)
            return true;
    return false;
}

/* What the hardware alone says of a host is what the reader of XML made of the whole file. */
static void hold_against_hardware(const char *path)
{
    struct tutti_err err = {""};
    struct tutti_topo_builder *builder = NULL;
    struct tutti_topo *xml = NULL;
    struct tutti_topo *again = NULL;
    size_t bytes = 0;
    char *text = test_read_file(path, &bytes);
    char *seen;
    char *expected;

    REQUIRE(text != NULL);
    if (tutti_nccl_xml_parse("it", text, bytes, &xml, NULL) == 0 && xml->hardware != NULL &&
        xml->host_count == 1 && !has_port_outside(xml->hardware) && strstr(text, "xgmi") == NULL) {
        CHECK_OK(tutti_topo_builder_new("it", "it", &builder, &err), err);
        CHECK_OK(tutti_hw_graph(builder, xml->hardware, NULL, NULL, &err), err);
        CHECK_OK(tutti_topo_set_hardware(builder, xml->hardware, &err), err);
        CHECK_OK(tutti_topo_freeze(builder, &again, &err), err);
        seen = lines_of(again);
        expected = lines_of(xml);
        if (strcmp(seen, expected) != 0)
            TEST_FAIL("%s: not the same machine", path);
        free(seen);
        free(expected);
        hosts_seen++;
    }
    tutti_topo_free(xml);
    tutti_topo_free(again);
    free(text);
}

TEST(hardware_alone_gives_the_nodes_and_links_of_nccls_xml)
{
    static const char *const folders[] = {"/topo-xml/handwritten", "/topo-xml", "/cases"};

    if (!tutti_nccl_xml_available())
        SKIP("no libexpat");
    hosts_seen = 0;
    for (size_t f = 0; f < sizeof(folders) / sizeof(folders[0]); f++) {
        char folder[512];
        size_t count = 0;
        char **files;

        (void)snprintf(folder, sizeof(folder), "%s%s", TUTTI_DATA_DIR, folders[f]);
        files = list_files(folder, ".xml", &count);
        for (size_t i = 0; i < count; i++) {
            char path[1024];

            (void)snprintf(path, sizeof(path), "%s/%s", folder, files[i]);
            hold_against_hardware(path);
        }
        free_files(files, count);
    }
    printf("%u hosts\n", hosts_seen);
    if (hosts_seen == 0)
        SKIP("no collected XML");
}

/* ---- what is asked for, and what is refused ------------------------------------------------ */

static void expect_refusal(const char *text, uint32_t ranks, const char *message)
{
    struct tutti_facts *facts = NULL;
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};
    int status = tutti_facts_parse("own.facts", text, strlen(text), &facts, &err);

    if (status == 0)
        status = tutti_topo_of_facts(facts, "it", ranks, &topo, &err);
    CHECK(status < 0);
    CHECK_TEXT(err.text, message);
    tutti_facts_free(facts);
    tutti_topo_free(topo);
}

TEST(what_is_wrong_is_said)
{
    expect_refusal("<system>", 0, "own.facts: line 1: these are no facts ('tutti facts 1')");
    expect_refusal("tutti facts 1\na = b\na = c\n", 0, "own.facts: line 3: 'a' again");
    expect_refusal("tutti facts 1\na = \\x\n", 0, "own.facts: line 2: no fact (NAME = TEXT)");
    expect_refusal("tutti facts 1\n", 0,
                   "it: nothing is known of its processors (sys/devices/system/cpu, as Linux has "
                   "it)");
    expect_refusal("tutti facts 1\nsys/devices/system/cpu/online = 0-3\n", 5,
                   "it: 5 ranks on 4 cores, without a GPU (at most one each)");
    expect_refusal("tutti facts 1\nsys/devices/system/cpu/online = 0\nnvml/count = 2\n"
                   "nvml/0/bus = 0000:01:00.0\nnvml/1/bus = 0000:01:00.0\n",
                   0, "it: GPU 1 has the bus id of another, 0000:01:00.0");
    expect_refusal("tutti facts 1\nsys/devices/system/cpu/online = 0\nnvml/count = 2\n"
                   "nvml/0/bus = 0000:01:00.0\nnvml/1/bus = 0000:02:00.0\n",
                   3, "it: 3 ranks on 2 GPUs (at most one each; several where there is one GPU)");
}

/* All messages are read from one memory and written to it. */
TEST(virtual_ranks_share_the_memory_of_one_gpu)
{
    char *text = test_read_file(FOLDER "cloud-h100.facts", NULL);
    struct tutti_facts *facts = parse(text);
    struct tutti_topo *topo = machine_of(facts, 4);
    uint32_t links[4];

    CHECK_INT(topo->rank_count, 4);
    CHECK_INT(tutti_topo_route(topo, 2, 3, links, 4), 3);
    CHECK_INT(tutti_topo_link(topo, links[1]).bytes_per_s, UINT64_C(1000000000000));
    CHECK(topo->hardware == NULL);
    tutti_topo_free(topo);
    tutti_facts_free(facts);
    free(text);
}

TEST(fewer_ranks_are_the_first_gpus)
{
    char *text = test_read_file(FOLDER "dgx-h100.facts", NULL);
    struct tutti_facts *facts = parse(text);
    struct tutti_topo *topo = machine_of(facts, 2);

    CHECK_INT(topo->rank_count, 2);
    CHECK_INT(topo->hardware->gpu_count, 2);
    tutti_topo_free(topo);
    tutti_facts_free(facts);
    free(text);
}
