/* The text form of hardware: one table says each key, for reading and for printing. */
#include "topo/hardware/text.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "runtime/units.h"
#include "topo/graph/words.h"

/* How a value is written. */
enum form {
    NUMBER,
    NUMA,   /* -1 too */
    FLAG,   /* the word alone */
    ARCH,   /* names */
    VENDOR, /* names */
    BUS,    /* dddd:bb:dd.f */
    IDS,    /* vvvv:dddd:vvvv:dddd */
    HEX,
    GENERATION,
    MBIT,  /* Gb/s or Mb/s */
    MBYTE, /* MB/s */
    NS,
    UNDER,  /* pciN or cpuN */
    FROM,   /* gpuN */
    TO_ANY, /* gpuN, cpuN, nvswitch */
};

struct field {
    const char *key;
    size_t offset;
    size_t bytes; /* of the member; UNDER and TO_ANY write others beside it */
    enum form form;
    bool needed; /* else 0 where it is not stated, and not printed if 0 */
};

enum { FIELDS_MAX = 9 };

struct part {
    const char *name;
    struct field fields[FIELDS_MAX];
};

#define AT(type, member) \
    offsetof(struct tutti_hw_##type, member), sizeof(((struct tutti_hw_##type *)0)->member)

static const struct part parts[TUTTI_HW_PART_COUNT] = {
    [TUTTI_HW_CPU] = {"cpu",
                      {{"numa", AT(cpu, numa), NUMA, true},
                       {"arch", AT(cpu, arch), ARCH, false},
                       {"vendor", AT(cpu, vendor), VENDOR, false},
                       {"family", AT(cpu, family), NUMBER, false},
                       {"model", AT(cpu, model), NUMBER, false}}},
    [TUTTI_HW_PCI] = {"pci",
                      {{"bus", AT(pci, bus_id), BUS, true},
                       {"under", AT(pci, parent), UNDER, true},
                       {"gen", AT(pci, lane_mbit_per_s), GENERATION, true},
                       {"lanes", AT(pci, lane_count), NUMBER, true},
                       {"ids", AT(pci, device_ids), IDS, false}}},
    [TUTTI_HW_GPU] = {"gpu",
                      {{"under", AT(gpu, pci), UNDER, true},
                       {"rank", AT(gpu, rank), NUMBER, true},
                       {"dev", AT(gpu, dev), NUMBER, true},
                       {"sm", AT(gpu, sm), NUMBER, false},
                       {"gdr", AT(gpu, gdr), FLAG, false},
                       {"no-peers", AT(gpu, no_peers), FLAG, false}}},
    [TUTTI_HW_NVLINK] = {"nvlink",
                         {{"from", AT(nvlink, gpu), FROM, true},
                          {"to", AT(nvlink, target), TO_ANY, true},
                          {"count", AT(nvlink, count), NUMBER, true}}},
    [TUTTI_HW_C2C] = {"c2c",
                      {{"from", AT(c2c, gpu), FROM, true},
                       {"each", AT(c2c, mbyte_per_s), MBYTE, true},
                       {"count", AT(c2c, count), NUMBER, true}}},
    [TUTTI_HW_NET] = {"net",
                      {{"under", AT(net, pci), UNDER, true},
                       {"dev", AT(net, dev), NUMBER, true},
                       {"rate", AT(net, mbit_per_s), MBIT, true},
                       {"port", AT(net, port), NUMBER, true},
                       {"guid", AT(net, guid), HEX, true},
                       {"latency", AT(net, latency_ns), NS, false},
                       {"gdr", AT(net, gdr), FLAG, false},
                       {"coll", AT(net, coll), FLAG, false},
                       {"unordered", AT(net, unordered), FLAG, false}}},
};

/* The one being read. */
union item {
    struct tutti_hw_cpu cpu;
    struct tutti_hw_pci pci;
    struct tutti_hw_gpu gpu;
    struct tutti_hw_nvlink nvlink;
    struct tutti_hw_c2c c2c;
    struct tutti_hw_net net;
};

static const char *const arch_names[] = {"unknown", "x86_64", "arm64", "ppc64", NULL};
static const char *const vendor_names[] = {"unknown", "intel", "amd", "zhaoxin", NULL};

static const char *const *names_of(enum form form)
{
    return form == ARCH ? arch_names : vendor_names;
}

static uint64_t get(const void *item, const struct field *field)
{
    const char *at = (const char *)item + field->offset;

    switch (field->bytes) {
    case 1:
        return *(const uint8_t *)(const void *)at;
    case 2:
        return *(const uint16_t *)(const void *)at;
    case 4:
        return *(const uint32_t *)(const void *)at;
    default:
        return *(const uint64_t *)(const void *)at;
    }
}

static void put(void *item, const struct field *field, uint64_t value)
{
    char *at = (char *)item + field->offset;

    switch (field->bytes) {
    case 1:
        *(uint8_t *)(void *)at = (uint8_t)value;
        break;
    case 2:
        *(uint16_t *)(void *)at = (uint16_t)value;
        break;
    case 4:
        *(uint32_t *)(void *)at = (uint32_t)value;
        break;
    default:
        *(uint64_t *)(void *)at = value;
        break;
    }
}

/* ---- reading ------------------------------------------------------------------------------- */

struct reading {
    struct tutti_hw_builder *builder;
    enum tutti_hw_part part;
    const struct field *field;
    union item *item;
    struct tutti_err *err;
};

static int refuse(const struct reading *reading, const char *text, const char *accepted)
{
    return tutti_fail(reading->err, TUTTI_EINVAL, "%s of a hardware %s is '%s' (%s)",
                      reading->field->key, parts[reading->part].name, text, accepted);
}

/* Up to 64 bits of hexadecimal digits; ':' and '.' between them are passed over. */
static int read_digits(const struct reading *reading, const char *text, const char *passed_over,
                       uint64_t *ret)
{
    static const char digits[] = "0123456789abcdef";
    uint64_t value = 0;
    size_t count = 0;

    for (const char *p = text; *p != '\0'; p++) {
        const char *digit = strchr(digits, tolower((unsigned char)*p));

        if (strchr(passed_over, *p) != NULL)
            continue;
        if (digit == NULL || ++count > 16)
            return refuse(reading, text, "hexadecimal digits");
        value = value << 4 | (uint64_t)(digit - digits);
    }
    *ret = value;
    return count == 0 ? refuse(reading, text, "hexadecimal digits") : 0;
}

static int read_name(const struct reading *reading, const char *text, uint64_t *ret)
{
    const char *const *names = names_of(reading->field->form);

    for (uint64_t i = 0; names[i] != NULL; i++) {
        if (strcmp(names[i], text) == 0) {
            *ret = i;
            return 0;
        }
    }
    return refuse(reading, text,
                  names == arch_names ? "x86_64, arm64, ppc64" : "intel, amd, zhaoxin");
}

/* "pci3": an earlier one of that part? */
static bool read_index(const struct reading *reading, const char *text, enum tutti_hw_part part,
                       uint32_t *ret)
{
    size_t length = strlen(parts[part].name);
    uint64_t index;

    if (strncmp(text, parts[part].name, length) != 0 || !isdigit((unsigned char)text[length]) ||
        tutti_read_count(text + length, 0, TUTTI_HW_ITEMS_MAX, &index, NULL) < 0 ||
        index >= reading->builder->parts[part].count)
        return false;
    *ret = (uint32_t)index;
    return true;
}

static int read_under(const struct reading *reading, const char *text)
{
    const struct tutti_hw_pci *pcis = reading->builder->parts[TUTTI_HW_PCI].items;
    union item *item = reading->item;
    uint32_t pci = TUTTI_HW_NONE;
    uint32_t cpu = 0;

    if (read_index(reading, text, TUTTI_HW_PCI, &pci))
        cpu = pcis[pci].cpu;
    else if (reading->part == TUTTI_HW_GPU)
        return refuse(reading, text, "a pci before this line, such as pci0");
    else if (!read_index(reading, text, TUTTI_HW_CPU, &cpu))
        return refuse(reading, text, "a pci or cpu before this line, such as cpu0");
    if (reading->part == TUTTI_HW_GPU) {
        item->gpu.pci = pci;
    } else if (reading->part == TUTTI_HW_PCI) {
        item->pci.parent = pci;
        item->pci.cpu = cpu;
    } else {
        item->net.pci = pci;
        item->net.cpu = cpu;
    }
    return 0;
}

static int read_target(const struct reading *reading, const char *text)
{
    struct tutti_hw_nvlink *link = &reading->item->nvlink;

    if (strcmp(text, "nvswitch") == 0)
        link->target_kind = TUTTI_TARGET_NVSWITCH;
    else if (read_index(reading, text, TUTTI_HW_CPU, &link->target))
        link->target_kind = TUTTI_TARGET_CPU;
    else if (read_index(reading, text, TUTTI_HW_GPU, &link->target))
        link->target_kind = TUTTI_TARGET_GPU;
    else
        return refuse(reading, text, "nvswitch, or a gpu or cpu before this line, such as gpu1");
    return 0;
}

/* In units of `unit` bytes per second, which it must be a whole number of. */
static int read_rate(const struct reading *reading, const char *text, uint64_t unit, uint64_t *ret)
{
    uint64_t bytes_per_s = 0;
    int status = tutti_read_rate(text, &bytes_per_s, reading->err);

    if (status == 0 && (bytes_per_s % unit != 0 || bytes_per_s / unit > UINT32_MAX))
        return refuse(reading, text, unit == 1000000 ? "whole MB/s" : "whole Mb/s");
    *ret = bytes_per_s / unit;
    return status;
}

static int read_ns(const struct reading *reading, const char *text, uint64_t *ret)
{
    tutti_ps time_ps = 0;
    int status = tutti_read_time(text, &time_ps, reading->err);

    if (status == 0 && (time_ps % TUTTI_PS_PER_NS != 0 || time_ps / TUTTI_PS_PER_NS > UINT32_MAX))
        return refuse(reading, text, "whole ns, up to 4s");
    *ret = (uint64_t)(time_ps / TUTTI_PS_PER_NS);
    return status;
}

static int read_number(const struct reading *reading, const char *text, uint64_t *ret)
{
    uint64_t max = reading->field->bytes == 2 ? UINT16_MAX : UINT32_MAX;
    uint64_t generation = 0;
    int status;

    if (reading->field->form == GENERATION) {
        status = tutti_read_count(text, 1, 6, &generation, reading->err);
        *ret = tutti_hw_lane_mbit_per_s((uint32_t)generation);
        return status;
    }
    if (reading->field->form == NUMA && strcmp(text, "-1") == 0) {
        *ret = UINT32_MAX;
        return 0;
    }
    return tutti_read_count(text, 0, reading->field->form == NUMA ? INT32_MAX : max, ret,
                            reading->err);
}

static int read_value(const struct reading *reading, const char *text)
{
    uint32_t gpu = 0;
    uint64_t value = 0;
    int status = 0;

    switch (reading->field->form) {
    case NUMBER:
    case NUMA:
    case GENERATION:
        status = read_number(reading, text, &value);
        break;
    case FLAG:
        value = 1;
        break;
    case ARCH:
    case VENDOR:
        status = read_name(reading, text, &value);
        break;
    case BUS:
        status = read_digits(reading, text, ":.", &value);
        break;
    case IDS:
        status = read_digits(reading, text, ":", &value);
        break;
    case HEX:
        status = strncmp(text, "0x", 2) == 0 ? read_digits(reading, text + 2, "", &value)
                                             : refuse(reading, text, "0x and digits");
        break;
    case MBIT:
        status = read_rate(reading, text, 1000000 / 8, &value);
        break;
    case MBYTE:
        status = read_rate(reading, text, 1000000, &value);
        break;
    case NS:
        status = read_ns(reading, text, &value);
        break;
    case UNDER:
        return read_under(reading, text);
    case TO_ANY:
        return read_target(reading, text);
    case FROM:
        if (!read_index(reading, text, TUTTI_HW_GPU, &gpu))
            status = refuse(reading, text, "a gpu before this line, such as gpu0");
        value = gpu;
        break;
    }
    if (status == 0)
        put(reading->item, reading->field, value);
    return status;
}

/* The field that "key=value" or a flag names, or NULL; *ret: its value. */
static const struct field *find_field(const struct part *part, const char *word, const char **ret)
{
    size_t length = strcspn(word, "=");

    for (size_t f = 0; f < FIELDS_MAX && part->fields[f].key != NULL; f++) {
        const struct field *field = &part->fields[f];

        if (strlen(field->key) == length && strncmp(field->key, word, length) == 0 &&
            (word[length] == '\0') == (field->form == FLAG)) {
            *ret = word + length + (word[length] == '=');
            return field;
        }
    }
    return NULL;
}

static int refuse_key(const struct part *part, const char *word, struct tutti_err *err)
{
    char keys[128] = "";
    size_t used = 0;

    for (size_t f = 0; f < FIELDS_MAX && part->fields[f].key != NULL; f++)
        used += (size_t)snprintf(keys + used, sizeof(keys) - used, "%s%s%s", f == 0 ? "" : ", ",
                                 part->fields[f].key, part->fields[f].form == FLAG ? "" : "=");
    return tutti_fail(err, TUTTI_EINVAL, "unknown option '%s' of a hardware %s (%s)", word,
                      part->name, keys);
}

static int read_part(struct tutti_words *words, struct reading *reading)
{
    const struct part *part = &parts[reading->part];
    char word[TUTTI_WORD_BYTES];
    uint32_t seen = 0;
    int status = 0;

    while (status == 0 && (status = tutti_words_next(words, word, reading->err)) > 0) {
        const char *value = NULL;

        reading->field = find_field(part, word, &value);
        if (reading->field == NULL)
            return refuse_key(part, word, reading->err);
        seen |= 1u << (reading->field - part->fields);
        status = read_value(reading, value);
    }
    for (size_t f = 0; f < FIELDS_MAX && part->fields[f].key != NULL && status == 0; f++)
        if (part->fields[f].needed && (seen >> f & 1) == 0)
            status = tutti_fail(reading->err, TUTTI_EINVAL, "a hardware %s without %s=", part->name,
                                part->fields[f].key);
    return status;
}

/* "hosts=18" */
static int read_rack(struct tutti_words *words, struct tutti_hw_builder *builder,
                     struct tutti_err *err)
{
    char word[TUTTI_WORD_BYTES];
    uint64_t count = 0;
    int status = tutti_words_need(words, "hosts=", word, err);

    if (status == 0 && strncmp(word, "hosts=", 6) != 0)
        status =
            tutti_fail(err, TUTTI_EINVAL, "unknown option '%s' of a hardware rack (hosts=)", word);
    if (status == 0)
        status = tutti_read_count(word + 6, 1, TUTTI_HW_ITEMS_MAX, &count, err);
    builder->rack = (uint32_t)count;
    return status < 0 ? status : tutti_words_end(words, err);
}

int tutti_hw_read(struct tutti_words *words, struct tutti_hw_builder *builder,
                  struct tutti_err *err)
{
    union item item;
    struct reading reading = {.builder = builder, .item = &item, .err = err};
    char word[TUTTI_WORD_BYTES];
    int part = 0;
    int status =
        tutti_words_need(words, "a part: cpu, pci, gpu, nvlink, c2c, net or rack", word, err);

    if (status < 0)
        return status;
    if (strcmp(word, "rack") == 0)
        return read_rack(words, builder, err);
    while (part < TUTTI_HW_PART_COUNT && strcmp(word, parts[part].name) != 0)
        part++;
    if (part == TUTTI_HW_PART_COUNT)
        return tutti_fail(err, TUTTI_EINVAL,
                          "unknown part '%s' (cpu, pci, gpu, nvlink, c2c, net, rack)", word);
    memset(&item, 0, sizeof(item));
    reading.part = (enum tutti_hw_part)part;
    status = read_part(words, &reading);
    return status < 0 ? status : tutti_hw_builder_add(builder, reading.part, &item, err);
}

/* ---- printing ------------------------------------------------------------------------------ */

static void print_under(FILE *out, enum tutti_hw_part part, const void *item)
{
    uint32_t pci = TUTTI_HW_NONE;
    uint32_t cpu = 0;

    if (part == TUTTI_HW_GPU) {
        pci = ((const struct tutti_hw_gpu *)item)->pci;
    } else if (part == TUTTI_HW_PCI) {
        pci = ((const struct tutti_hw_pci *)item)->parent;
        cpu = ((const struct tutti_hw_pci *)item)->cpu;
    } else {
        pci = ((const struct tutti_hw_net *)item)->pci;
        cpu = ((const struct tutti_hw_net *)item)->cpu;
    }
    if (pci != TUTTI_HW_NONE)
        fprintf(out, "pci%" PRIu32, pci);
    else
        fprintf(out, "cpu%" PRIu32, cpu);
}

static void print_target(FILE *out, const struct tutti_hw_nvlink *link)
{
    if (link->target_kind == TUTTI_TARGET_NVSWITCH)
        fputs("nvswitch", out);
    else
        fprintf(out, "%s%" PRIu32, link->target_kind == TUTTI_TARGET_GPU ? "gpu" : "cpu",
                link->target);
}

static void print_value(FILE *out, enum tutti_hw_part part, const struct field *field,
                        const void *item)
{
    uint64_t value = get(item, field);
    char buf[TUTTI_UNIT_TEXT_BYTES];

    switch (field->form) {
    case NUMBER:
        fprintf(out, "%" PRIu64, value);
        break;
    case NUMA:
        fprintf(out, "%" PRId32, (int32_t)(uint32_t)value);
        break;
    case FLAG:
        break;
    case ARCH:
    case VENDOR:
        fputs(names_of(field->form)[value], out);
        break;
    case BUS:
        fprintf(out, "%04" PRIx64 ":%02" PRIx64 ":%02" PRIx64 ".%" PRIx64, value >> 20,
                value >> 12 & 0xff, value >> 4 & 0xff, value & 0xf);
        break;
    case IDS:
        fprintf(out, "%04" PRIx64 ":%04" PRIx64 ":%04" PRIx64 ":%04" PRIx64, value >> 48,
                value >> 32 & 0xffff, value >> 16 & 0xffff, value & 0xffff);
        break;
    case HEX:
        fprintf(out, "0x%" PRIx64, value);
        break;
    case GENERATION:
        fprintf(out, "%" PRIu32, tutti_hw_pcie_generation((uint32_t)value));
        break;
    case MBIT:
        fprintf(out, "%" PRIu64 "%s", value % 1000 == 0 ? value / 1000 : value,
                value % 1000 == 0 ? "Gb/s" : "Mb/s");
        break;
    case MBYTE:
        fprintf(out, "%" PRIu64 "MB/s", value);
        break;
    case NS:
        fputs(tutti_print_time((tutti_ps)value * TUTTI_PS_PER_NS, buf), out);
        break;
    case UNDER:
        print_under(out, part, item);
        break;
    case FROM:
        fprintf(out, "gpu%" PRIu64, value);
        break;
    case TO_ANY:
        print_target(out, item);
        break;
    }
}

static void print_items(FILE *out, enum tutti_hw_part p, const void *items, uint32_t count,
                        size_t bytes)
{
    const struct part *part = &parts[p];

    for (uint32_t i = 0; i < count; i++) {
        const char *item = (const char *)items + i * bytes;

        fprintf(out, "hardware %s", part->name);
        for (size_t f = 0; f < FIELDS_MAX && part->fields[f].key != NULL; f++) {
            const struct field *field = &part->fields[f];

            if (!field->needed && get(item, field) == 0)
                continue;
            fprintf(out, " %s%s", field->key, field->form == FLAG ? "" : "=");
            print_value(out, p, field, item);
        }
        fputc('\n', out);
    }
}

#define PRINT(part, items, count) print_items(out, part, items, count, sizeof(*(items)))

void tutti_hw_print(FILE *out, const struct tutti_hardware *hardware)
{
    PRINT(TUTTI_HW_CPU, hardware->cpus, hardware->cpu_count);
    PRINT(TUTTI_HW_PCI, hardware->pcis, hardware->pci_count);
    PRINT(TUTTI_HW_GPU, hardware->gpus, hardware->gpu_count);
    PRINT(TUTTI_HW_NVLINK, hardware->nvlinks, hardware->nvlink_count);
    PRINT(TUTTI_HW_C2C, hardware->c2cs, hardware->c2c_count);
    PRINT(TUTTI_HW_NET, hardware->nets, hardware->net_count);
    if (hardware->rack > 0)
        fprintf(out, "hardware rack hosts=%" PRIu32 "\n", hardware->rack);
}
