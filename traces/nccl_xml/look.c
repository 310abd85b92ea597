/* The first look: refusals that say what the file is instead, then GPUs in order of rank. */
#include "traces/nccl_xml/look.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "traces/nccl_xml/build.h"

enum { RANK_MAX = 1 << 30, SM_MAX = 1000 };

static bool is(const struct tutti_xml_element *element, const char *name)
{
    return strcmp(element->name, name) == 0;
}

static int check_root(const struct tutti_xml_build *build)
{
    const struct tutti_xml *xml = build->xml;
    const struct tutti_xml_element *root = &xml->elements[0];
    const char *version = tutti_xml_value(root, "version");
    char quoted[TUTTI_XML_QUOTE_BYTES];

    if (is(root, "graphs"))
        return tutti_fail(build->err, TUTTI_EINVAL,
                          "%s: line %u: 'graphs': the channels that NCCL found, not the machine "
                          "(a topology, as NCCL_TOPO_DUMP_FILE writes it)",
                          xml->name, root->line);
    if (!is(root, "system"))
        return tutti_fail(build->err, TUTTI_EINVAL,
                          "%s: line %u: the root element is '%s' ('system')", xml->name, root->line,
                          tutti_xml_quote(root->name, quoted));
    /* NCCL writes 1; RCCL 2, with the attributes gcn and arch of GPUs. */
    if (version == NULL || (strcmp(version, "1") != 0 && strcmp(version, "2") != 0))
        return tutti_fail(build->err, TUTTI_EINVAL, "%s: line %u: topology version '%s' (1 or 2)",
                          xml->name, root->line,
                          tutti_xml_quote(version == NULL ? "" : version, quoted));
    return 0;
}

/* The first gpu and the first nic of each pci element. */
static void find_functions(struct tutti_xml_build *build)
{
    const struct tutti_xml *xml = build->xml;

    for (uint32_t e = 1; e < xml->count; e++) {
        struct tutti_xml_place *parent = &build->places[xml->elements[e].parent];

        if (!is(&xml->elements[xml->elements[e].parent], "pci"))
            continue;
        if (is(&xml->elements[e], "gpu") && parent->gpu == TUTTI_XML_NONE)
            parent->gpu = e;
        if (is(&xml->elements[e], "nic") && parent->nic == TUTTI_XML_NONE)
            parent->nic = e;
    }
}

/* Is `element` where NCCL looks for one of its name? A pci element that is a GPU or a NIC has no
 * pci elements below it. */
static bool belongs(const struct tutti_xml_build *build, const struct tutti_xml_element *element)
{
    const struct tutti_xml_element *parent = &build->xml->elements[element->parent];
    const struct tutti_xml_place *place = &build->places[element->parent];

    if (is(element, "cpu"))
        return is(parent, "system");
    if (is(element, "pci"))
        return is(parent, "cpu") ||
               (is(parent, "pci") && place->gpu == TUTTI_XML_NONE && place->nic == TUTTI_XML_NONE);
    if (is(element, "gpu"))
        return is(parent, "pci");
    if (is(element, "nic"))
        return is(parent, "cpu") || is(parent, "pci");
    return is(element, "net") && is(parent, "nic");
}

/* `held` is by element: it belongs, and so does all above it. */
static void find_held(const struct tutti_xml_build *build, bool *held)
{
    const struct tutti_xml *xml = build->xml;

    held[0] = true;
    for (uint32_t e = 1; e < xml->count; e++)
        held[e] = held[xml->elements[e].parent] && belongs(build, &xml->elements[e]);
}

/* How many elements of that name there are, wherever they stand. */
static uint32_t count_named(const struct tutti_xml *xml, const char *name)
{
    uint32_t count = 0;

    for (uint32_t e = 0; e < xml->count; e++)
        count += is(&xml->elements[e], name);
    return count;
}

static int refuse_empty(const struct tutti_xml_build *build)
{
    const struct tutti_xml *xml = build->xml;
    uint32_t gpus = count_named(xml, "gpu");

    for (uint32_t e = 1; e < xml->count; e++)
        if (is(&xml->elements[e], "group") && is(&xml->elements[xml->elements[e].parent], "system"))
            return tutti_fail(build->err, TUTTI_EINVAL,
                              "%s: line %u: 'group' in 'system': a table of machines to choose "
                              "from, not one machine (a topology, as NCCL_TOPO_DUMP_FILE writes "
                              "it)",
                              xml->name, xml->elements[e].line);
    if (gpus > 0)
        return tutti_fail(build->err, TUTTI_EINVAL,
                          "%s: none of the %" PRIu32 " gpu elements lies in a pci element of a cpu "
                          "of the system",
                          xml->name, gpus);
    return tutti_fail(build->err, TUTTI_EINVAL,
                      "%s: no gpu elements, only a skeleton of %" PRIu32
                      " pci elements that NCCL fills in when it runs (a topology with GPUs, as "
                      "NCCL_TOPO_DUMP_FILE writes it)",
                      xml->name, count_named(xml, "pci"));
}

static int read_gpu(struct tutti_xml_build *build, uint32_t pci, struct tutti_xml_gpu *gpu)
{
    const struct tutti_xml *xml = build->xml;
    const struct tutti_xml_element *element = &xml->elements[gpu->element];
    int status;

    gpu->bus = tutti_xml_bus(&xml->elements[pci], "busid");
    gpu->gcn = tutti_xml_value(element, "gcn");
    status =
        tutti_xml_number(xml, element, "rank", TUTTI_XML_NONE, 0, RANK_MAX, &gpu->rank, build->err);
    /* RCCL puts the number of compute units there. */
    if (status == 0)
        status = tutti_xml_number(xml, element, "sm", 0, 0, SM_MAX, &gpu->sm, build->err);
    if (gpu->gcn != NULL)
        gpu->sm = 0;
    return status;
}

static int by_rank(const void *left, const void *right)
{
    const struct tutti_xml_gpu *a = left;
    const struct tutti_xml_gpu *b = right;

    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return (a->element > b->element) - (a->element < b->element);
}

/* NCCL leaves out a GPU without a rank. Where none has one, nobody ran yet: then all are meant. */
static int rank_gpus(struct tutti_xml_build *build)
{
    const struct tutti_xml *xml = build->xml;
    uint32_t ranked = 0;

    if (build->gpu_count > 0)
        qsort(build->gpus, build->gpu_count, sizeof(*build->gpus), by_rank);
    while (ranked < build->gpu_count && build->gpus[ranked].rank != TUTTI_XML_NONE)
        ranked++;
    if (ranked > 0)
        build->gpu_count = ranked;
    for (uint32_t g = 1; g < ranked; g++)
        if (build->gpus[g].rank == build->gpus[g - 1].rank)
            return tutti_fail(build->err, TUTTI_EINVAL,
                              "%s: line %u: rank %" PRId64 " again (line %u has it)", xml->name,
                              xml->elements[build->gpus[g].element].line, build->gpus[g].rank,
                              xml->elements[build->gpus[g - 1].element].line);
    return 0;
}

/* A branch without a GPU or a port is left out, as NCCL trims it. */
static void mark_wanted(struct tutti_xml_build *build, const bool *held)
{
    const struct tutti_xml *xml = build->xml;

    for (uint32_t g = 0; g < build->gpu_count; g++) {
        build->gpus[g].index = g;
        build->places[build->gpus[g].element].device = &build->gpus[g];
        build->places[build->gpus[g].element].wanted = true;
    }
    for (uint32_t e = xml->count; e-- > 1;) {
        const struct tutti_xml_element *element = &xml->elements[e];
        struct tutti_xml_place *place = &build->places[e];

        /* "A net without dev is not there", says NCCL. */
        if (held[e] && is(element, "net") && tutti_xml_value(element, "dev") != NULL)
            place->wanted = true;
        if (place->wanted)
            build->places[element->parent].wanted = true;
    }
}

int tutti_xml_look(struct tutti_xml_build *build)
{
    const struct tutti_xml *xml = build->xml;
    int status = check_root(build);
    bool *held;

    if (status < 0)
        return status;
    held = calloc(xml->count, sizeof(*held));
    if (held == NULL)
        return tutti_nomem(build->err);
    find_functions(build);
    find_held(build, held);
    for (uint32_t e = 1; e < xml->count && status == 0; e++) {
        if (!held[e] || !is(&xml->elements[e], "pci") || build->places[e].gpu == TUTTI_XML_NONE)
            continue;
        build->gpus[build->gpu_count].element = build->places[e].gpu;
        status = read_gpu(build, e, &build->gpus[build->gpu_count++]);
    }
    if (status == 0 && build->gpu_count == 0)
        status = refuse_empty(build);
    if (status == 0)
        status = rank_gpus(build);
    if (status == 0)
        mark_wanted(build, held);
    free(held);
    return status;
}
