/* Tests of pictures: well formed, within limits, texts that do not overlap, the same every time. */
#include <ctype.h>
#include <dirent.h>

#include "runtime/status.h"
#include "tests/folder.h"
#include "tests/machines.h"
#include "tests/test.h"
#include "topo/topo.h"
#include "traces/nccl_xml.h"

static char *drawn(const struct tutti_topo *topo)
{
    struct tutti_err err = {""};
    char *text = NULL;

    CHECK_OK(tutti_topo_svg(topo, &text, &err), err);
    if (text == NULL)
        exit(1);
    return text;
}

/* ---- a small reader of XML ------------------------------------------------------------------- */

struct text_box {
    int left;
    int right;
    int top;
    int bottom;
    char text[64];
};

enum { TEXTS_MAX = 4096, DEPTH_MAX = 16 };

/* What was read of a picture; `fault` says what is not well formed. */
struct picture {
    const char *fault;
    int width;
    int height;
    int shift_x;
    int shift_y;
    uint32_t text_count;
    uint32_t box_count;
    struct text_box texts[TEXTS_MAX];
};

static int number_of(const char *tag, const char *end, const char *key)
{
    size_t bytes = strlen(key);

    for (const char *at = tag; at + bytes + 2 < end; at++)
        if (at[0] == ' ' && memcmp(at + 1, key, bytes) == 0 && at[1 + bytes] == '=')
            return (int)strtol(at + bytes + 3, NULL, 10);
    return 0;
}

static bool has(const char *tag, const char *end, const char *word)
{
    const char *found = strstr(tag, word);

    return found != NULL && found < end;
}

/* Where a text is, if letters are 0.52 of the font wide: a little less than most are. */
static void add_text(struct picture *picture, const char *tag, const char *end, const char *close)
{
    struct text_box *box = &picture->texts[picture->text_count];
    int font = has(tag, end, "title")   ? 18
               : has(tag, end, "label") ? 10
               : has(tag, end, "small") ? 8
                                        : 12;
    int x = number_of(tag, end, "x") + picture->shift_x;
    int y = number_of(tag, end, "y") + picture->shift_y;
    int width = 0;
    int count = 0;

    for (const char *at = end + 1; at < close; at++, count++)
        if (*at == '&')
            at += strcspn(at, ";");
    width = count * font * 52 / 100;
    box->left = has(tag, end, "\"middle\"") ? x - width / 2
                : has(tag, end, "\"end\"")  ? x - width
                                            : x;
    box->right = box->left + width;
    box->top = y - font * 70 / 100;
    box->bottom = y;
    snprintf(box->text, sizeof(box->text), "%.*s", (int)(close - end - 1), end + 1);
    picture->text_count++;
}

static void read_tag(struct picture *picture, const char *tag, const char *end)
{
    if (strncmp(tag, "<svg ", 5) == 0) {
        picture->width = number_of(tag, end, "width");
        picture->height = number_of(tag, end, "height");
    }
    if (strncmp(tag, "<g ", 3) == 0)
        sscanf(strstr(tag, "translate("), "translate(%d %d)", &picture->shift_x, &picture->shift_y);
    if (strncmp(tag, "</g>", 4) == 0)
        picture->shift_x = picture->shift_y = 0;
    if (strncmp(tag, "<rect ", 6) == 0)
        picture->box_count++;
    if (strncmp(tag, "<text ", 6) == 0 && picture->text_count < TEXTS_MAX)
        add_text(picture, tag, end, strchr(end, '<'));
}

/* Quotes close, every attribute is NAME="VALUE", nothing in it is a '<'. */
static const char *read_attributes(struct picture *picture, const char *at)
{
    while (picture->fault == NULL && *at != '>' && strncmp(at, "/>", 2) != 0) {
        if (*at == ' ')
            at++;
        while (isalpha((unsigned char)*at) || *at == '-')
            at++;
        if (at[0] != '=' || at[1] != '"') {
            picture->fault = "an attribute without a value in quotes";
            break;
        }
        at += 2;
        at += strcspn(at, "\"<");
        if (*at++ != '"')
            picture->fault = "a quote that does not close";
    }
    return at;
}

static void read_text(struct picture *picture, const char *at)
{
    for (; *at != '\0' && *at != '<'; at++) {
        if (*at == '&' && strncmp(at, "&amp;", 5) != 0 && strncmp(at, "&lt;", 4) != 0 &&
            strncmp(at, "&gt;", 4) != 0 && strncmp(at, "&quot;", 6) != 0)
            picture->fault = "a bare ampersand";
        if ((unsigned char)*at >= 0x7f || ((unsigned char)*at < 0x20 && *at != '\n'))
            picture->fault = "a character that is not printable ASCII";
    }
}

/* Tags nest, attributes and entities are in order; no more than SVG of ours needs. */
static void read_picture(const char *text, struct picture *picture)
{
    char open[DEPTH_MAX][16];
    int depth = 0;

    memset(picture, 0, sizeof(*picture));
    if (strncmp(text, "<svg ", 5) != 0)
        picture->fault = "no <svg at the beginning";
    for (const char *at = text; picture->fault == NULL && *at != '\0';) {
        const char *tag = at;
        size_t bytes;

        if (*at != '<') {
            read_text(picture, at);
            at += strcspn(at, "<");
            continue;
        }
        at += 1 + (at[1] == '/');
        bytes = strspn(at, "abcdefghijklmnopqrstuvwxyz");
        if (bytes == 0 || bytes > 15) {
            picture->fault = "a tag without a name";
            break;
        }
        if (tag[1] == '/') {
            if (depth == 0 || strlen(open[depth - 1]) != bytes ||
                memcmp(open[--depth], at, bytes) != 0 || at[bytes] != '>')
                picture->fault = "an end tag that ends nothing";
            at += bytes;
        } else {
            snprintf(open[depth], sizeof(open[0]), "%.*s", (int)bytes, at);
            at = read_attributes(picture, at + bytes);
            depth += *at != '/';
            at += *at == '/';
        }
        if (picture->fault == NULL && depth < DEPTH_MAX)
            read_tag(picture, tag, at);
        at += *at == '>';
    }
    if (picture->fault == NULL && depth != 0)
        picture->fault = "an element that does not end";
}

/* ---- what every picture must hold ------------------------------------------------------------ */

static bool overlap(const struct text_box *a, const struct text_box *b)
{
    return a->left < b->right && b->left < a->right && a->top < b->bottom && b->top < a->bottom;
}

static void check_picture(const char *name, const char *text)
{
    static struct picture picture;
    int told = 0;

    read_picture(text, &picture);
    if (picture.fault != NULL)
        TEST_FAIL("%s: %s", name, picture.fault);
    if (strlen(text) > 400000)
        TEST_FAIL("%s: %zu bytes", name, strlen(text));
    if (picture.width < 300 || picture.width > 2400 || picture.height < 150 ||
        picture.height > 2400)
        TEST_FAIL("%s: %d x %d pixels", name, picture.width, picture.height);
    for (uint32_t i = 0; i < picture.text_count && told < 5; i++) {
        const struct text_box *a = &picture.texts[i];

        if (a->left < 0 || a->right > picture.width || a->top < 0 || a->bottom > picture.height) {
            TEST_FAIL("%s: '%s' is outside", name, a->text);
            told++;
        }
        for (uint32_t j = 0; j < i && told < 5; j++) {
            if (overlap(a, &picture.texts[j])) {
                TEST_FAIL("%s: '%s' lies on '%s'", name, a->text, picture.texts[j].text);
                told++;
            }
        }
    }
}

TEST(every_preset_can_be_drawn)
{
    static const char *const others[] = {
        "ring:n=1",
        "ring:n=2",
        "ring:n=1000",
        "mesh:3",
        "mesh:1x7",
        "mesh:5x3",
        "torus:4x4",
        "torus:4x4x4",
        "torus:2x3x4x5",
        "torus:16x16x16",
        "torus:3x3x3x3x3",
        "switch:n=1",
        "switch:n=300",
        "full:n=20",
        "fattree",
        "fattree:arity=2,levels=5",
        "dgx-1v:nodes=2",
        "dgx-2:nodes=3",
        "dgx-h100",
        "dgx-h100:nodes=4",
        "dgx-h100:nodes=100",
        "mi300x:nodes=2",
        "gb200-nvl72",
        "gb200-nvl72:racks=8",
        "pcie:nodes=2",
        "tpu-v5e:8x8",
        "tpu-v5e:4x4,slices=2",
        "tpu-v4:4x4x8",
        "tpu-v4:8x16x16",
        "rail:nodes=3,gpus=2,nics=1",
    };
    size_t count;
    const struct tutti_preset *presets = tutti_presets(&count);

    for (size_t i = 0; i < count + sizeof(others) / sizeof(others[0]); i++) {
        const char *spec = i < count ? presets[i].example : others[i - count];
        struct tutti_topo *topo = machine(spec);
        char *text = drawn(topo);

        check_picture(spec, text);
        free(text);
        tutti_topo_free(topo);
    }
}

static bool draw_file(const char *directory, const char *name)
{
    char path[1024];
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};
    size_t bytes = 0;
    char *text;
    bool loaded;

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    text = test_read_file(path, &bytes);
    loaded = text != NULL && tutti_nccl_xml_parse(name, text, bytes, &topo, &err) == 0;
    free(text);
    if (!loaded)
        return false;
    text = drawn(topo);
    check_picture(name, text);
    free(text);
    tutti_topo_free(topo);
    return true;
}

TEST(real_machines_can_be_drawn)
{
    const char *directory = TUTTI_DATA_DIR "/topo-xml";
    DIR *files = opendir(directory);
    const struct dirent *file;
    uint32_t count = 0;

    if (files == NULL)
        SKIP("no collected NCCL XML at " TUTTI_DATA_DIR);
    while (tutti_nccl_xml_available() && (file = readdir(files)) != NULL)
        if (strstr(file->d_name, ".xml") != NULL && is_known(directory, file->d_name))
            count += draw_file(directory, file->d_name);
    closedir(files);
    if (!tutti_nccl_xml_available())
        SKIP("this build reads no XML (libexpat)");
    printf("        %u machines\n", count);
    CHECK(count >= 100);
}

/* Each node of a machine that is shown whole is a box, and no link is lost. */
static uint32_t count_of(const char *text, const char *word)
{
    uint32_t count = 0;

    for (const char *at = strstr(text, word); at != NULL; at = strstr(at + 1, word))
        count++;
    return count;
}

TEST(a_small_machine_is_shown_whole)
{
    struct tutti_topo *topo = machine("dgx-h100:nodes=2");
    char *text = drawn(topo);

    CHECK_INT(count_of(text, "<rect class=\"device\""), 16 + 1); /* and one in the legend */
    CHECK_INT(count_of(text, "<rect class=\"nic\""), 16 + 1);
    CHECK_INT(count_of(text, "<rect class=\"reduces\""), 2 + 1);
    CHECK_INT(count_of(text, "<rect class=\"switch\""), 8 + 2 + 1); /* leaves and spines */
    CHECK_INT(count_of(text, "<path class=\"nvlink\""), 16 + 1);
    CHECK_INT(count_of(text, "<path class=\"pcie\""), 16 + 1);
    CHECK_INT(count_of(text, "<path class=\"net\""), 16 + 8 * 2 + 2);
    CHECK(strstr(text, "Shown:") == NULL);
    free(text);
    tutti_topo_free(topo);
    topo = machine("dgx-1v");
    text = drawn(topo);
    CHECK_INT(count_of(text, "<path class=\"nvlink\""), 16 + 2);
    free(text);
    tutti_topo_free(topo);
    topo = machine("torus:4x4"); /* 24 between neighbours, 8 round the edge: two stubs each */
    text = drawn(topo);
    CHECK_INT(count_of(text, "<path class=\"generic\""), 24 + 2 * 8 + 1);
    free(text);
    tutti_topo_free(topo);
    topo = machine("dgx-h100:nodes=64");
    text = drawn(topo);
    CHECK(strstr(text, "Shown: 5 of 64 hosts") != NULL);
    free(text);
    tutti_topo_free(topo);
}

TEST(names_cannot_break_out)
{
    static const char source[] = "topology </text><script>\"a\" & b\nsource <b>& 'c' \"d\"\n"
                                 "node <x>&\"'0 device\nnode &amp;1 device\nnode ]]> switch\n"
                                 "link <x>&\"'0 ]]> net 1GB/s 1us\nlink ]]> &amp;1 net 1GB/s 1us\n"
                                 "cable <x>&\"'0 &amp;1 nvlink 1GB/s 1us\n";
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};
    char *text;

    CHECK_OK(tutti_topo_parse("test", source, strlen(source), &topo, &err), err);
    REQUIRE(topo != NULL);
    text = drawn(topo);
    check_picture("bad names", text);
    CHECK(strstr(text, "<script>") == NULL);
    CHECK(strstr(text, "&lt;script&gt;") != NULL);
    CHECK_INT(count_of(text, "oneway\""), 2);
    free(text);
    tutti_topo_free(topo);
}

TEST(pictures_are_the_same_every_time)
{
    static const char *const specs[][2] = {{"dgx-1v", "dgx-1v.svg"},
                                           {"dgx-h100:nodes=2", "dgx-h100-2.svg"},
                                           {"tpu-v4:4x4x4", "tpu-v4.svg"}};

    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        struct tutti_topo *topo = machine(specs[i][0]);
        char *text = drawn(topo);

        test_golden(specs[i][1], text);
        free(text);
        tutti_topo_free(topo);
    }
}

/* The reader of this test would notice. */
TEST(what_is_not_well_formed_is_noticed)
{
    static const char *const bad[] = {
        "<svg a=\"1\"><g></svg>",  "<svg a=\"1\">",         "<svg a=1></svg>",
        "<svg a=\"1></svg>",       "<svg a=\"1\">&</svg>",  "<svg a=\"<\"></svg>",
        "<svg a=\"1\"></svg></g>", "<svg a=\"1\"><></svg>", "x",
    };
    static struct picture picture;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        read_picture(bad[i], &picture);
        if (picture.fault == NULL)
            TEST_FAIL("'%s' was taken as well formed", bad[i]);
    }
    read_picture("<svg a=\"1\"><g transform=\"translate(1 2)\"/>&amp;</svg>", &picture);
    CHECK(picture.fault == NULL);
    read_picture("<svg a=\"1\"><text class=\"note\" x=\"5\" y=\"20\">first</text>"
                 "<text class=\"note\" x=\"30\" y=\"25\">second</text>"
                 "<text class=\"note\" x=\"5\" y=\"40\">third</text></svg>",
                 &picture);
    CHECK(overlap(&picture.texts[0], &picture.texts[1]));
    CHECK(!overlap(&picture.texts[0], &picture.texts[2]));
}
