/* Images: finding code in a fatbin, whatever the bytes; and that the library's own hold sound code for every
 * architecture. */
#include "base/file.h"
#include "base/folder.h"
#include "base/random.h"
#include "base/status.h"
#include "core/config.h"
#include "cuda/fixture.h"
#include "cuda/image.h"
#include "cuda/image_without_cubins.h"
#include "cuda/provide.h"
#include "library/catalogue.h"

static const int archs[] = {80, 86, 89, 90, 100, 120};

enum { ARCHS = sizeof archs / sizeof archs[0] };

/* The library's, as files give them; ended by a NULL name. */
enum { IMAGES = 4 };
static at_embedded images[IMAGES + 1];

static int read_images(void **state)
{
    (void)state;
    for (int i = 0; i < IMAGES && at_cuda_images[i].name != NULL; ++i) {
        if (at_image_read(at_cuda_images[i].name, &images[i]) != ATTUNE_OK) {
            print_message("%s\n", attune_last_detail());
            return -1;
        }
    }
    return 0;
}

static int free_images(void **state)
{
    (void)state;
    for (int i = 0; i < IMAGES; ++i) {
        free((void *)images[i].data);
    }
    return 0;
}

static bool library_has_images(void)
{
    if (images[0].name == NULL) {
        print_message("this build has no images\n");
        return false;
    }
    return true;
}

/* ---- Fatbins made here ----------------------------------------------------------------------------------------------
 */

/* A fatbin with one entry for each kind given, all with this payload. */
typedef struct made_fatbin {
    unsigned char data[4096];
    size_t bytes;
} made_fatbin;

static void add_entry(made_fatbin *made, uint16_t kind, const void *payload, uint64_t bytes, uint64_t flags)
{
    unsigned char *at = made->data + made->bytes;
    uint32_t head = 64;
    memset(at, 0, head);
    memcpy(at, &kind, sizeof kind);
    memcpy(at + 4, &head, sizeof head);
    memcpy(at + 8, &bytes, sizeof bytes);
    memcpy(at + 40, &flags, sizeof flags);
    memcpy(at + head, payload, bytes);
    made->bytes += head + bytes;
}

static void close_fatbin(made_fatbin *made)
{
    const uint32_t magic = 0xba55ed50U;
    const uint16_t version = 1;
    const uint16_t head = 16;
    uint64_t bytes = made->bytes - head;
    memcpy(made->data, &magic, sizeof magic);
    memcpy(made->data + 4, &version, sizeof version);
    memcpy(made->data + 6, &head, sizeof head);
    memcpy(made->data + 8, &bytes, sizeof bytes);
}

static void what_is_no_fatbin_is_reported(void **state)
{
    at_image_code code;
    made_fatbin made = {.bytes = 16};
    (void)state;
    close_fatbin(&made);
    assert_fails(at_image_code_at(made.data, made.bytes, 0, &code), ATTUNE_NOT_FOUND, "no more");
    assert_fails(at_image_code_at(made.data, 15, 0, &code), ATTUNE_CORRUPT, "15 bytes");
    made.data[0] = 0;
    assert_fails(at_image_code_at(made.data, made.bytes, 0, &code), ATTUNE_CORRUPT, "not a fatbin");
    made.bytes = 16;
    add_entry(&made, 1, "ptx", 3, 0);
    add_entry(&made, 2, "not a cubin", 11, 0);
    close_fatbin(&made);
    assert_fails(at_image_code_at(made.data, made.bytes, 0, &code), ATTUNE_CORRUPT, "cubin");
    assert_fails(at_image_code_at(made.data, made.bytes, 1, &code), ATTUNE_NOT_FOUND, "no more");
    assert_fails(at_image_code_at(made.data, made.bytes - 1, 0, &code), ATTUNE_CORRUPT, "are there");
    made.bytes -= 5; /* the entry says more than the head */
    close_fatbin(&made);
    assert_fails(at_image_code_at(made.data, made.bytes, 0, &code), ATTUNE_CORRUPT, "are left");
}

static void compressed_code_is_reported(void **state)
{
    at_image_code code;
    made_fatbin made = {.bytes = 16};
    (void)state;
    add_entry(&made, 1, "ptx", 3, 0x8011); /* compressed PTX is nobody's concern */
    close_fatbin(&made);
    assert_fails(at_image_code_at(made.data, made.bytes, 0, &code), ATTUNE_NOT_FOUND, "no more");
    add_entry(&made, 2, "cubin", 5, 0x8011);
    close_fatbin(&made);
    assert_fails(at_image_code_at(made.data, made.bytes, 0, &code), ATTUNE_CORRUPT, "--no-compress");
}

/* ---- The library's
 * ---------------------------------------------------------------------------------------------------- */

static void damage_is_survived(void **state)
{
    at_image_code code;
    (void)state;
    if (!library_has_images()) {
        skip();
    }
    const at_embedded *image = images;
    unsigned char *copy = malloc(image->size);
    assert_non_null(copy);
    memcpy(copy, image->data, image->size);
    at_random random = at_random_seed(1, 0);
    for (int i = 0; i < 2000; ++i) {
        /* Heads and tables matter most: half of the damage goes into the first bytes of all. */
        size_t at = (size_t)at_random_below(&random, i % 2 == 0 ? 512 : image->size);
        copy[at] ^= (unsigned char)(1 + at_random_below(&random, 255));
        size_t bytes = i % 7 == 0 ? (size_t)at_random_below(&random, image->size) : image->size;
        for (int index = 0; index < 3; ++index) {
            (void)at_image_code_at(copy, bytes, index, &code);
        }
        copy[at] = image->data[at];
    }
    assert_memory_equal(copy, image->data, image->size);
    free(copy);
}

static void every_architecture_has_code(void **state)
{
    at_image_code code;
    (void)state;
    for (const at_embedded *image = images; image->name != NULL; ++image) {
        for (int i = 0; i < ARCHS; ++i) {
            attune_target target = fixture_target(archs[i]);
            assert_ok(at_image_choose(image, &target, &code));
            assert_int_equal(code.arch, archs[i]);
            assert_memory_equal(code.data, "\177ELF", 4);
        }
        assert_fails(at_image_code_at(image->data, image->size, ARCHS, &code), ATTUNE_NOT_FOUND, "no more");
    }
}

/* Devices in between run the newest code of their generation that is not newer; others none. */
static void devices_in_between_find_code(void **state)
{
    static const int pairs[][2] = {{87, 86}, {103, 100}, {121, 120}};
    at_image_code code;
    attune_target target = fixture_target(90);
    (void)state;
    if (!library_has_images()) {
        skip();
    }
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; ++i) {
        target.arch = pairs[i][0];
        assert_ok(at_image_choose(images, &target, &code));
        assert_int_equal(code.arch, pairs[i][1]);
    }
    target.arch = 75;
    assert_fails(at_image_choose(images, &target, &code), ATTUNE_UNSUPPORTED, "sm_80 sm_86");
    target.arch = 110;
    assert_fails(at_image_choose(images, &target, &code), ATTUNE_UNSUPPORTED, "the device is sm_110");
}

/* ---- The kernels in them -------------------------------------------------------------------------------------------
 */

/* One shipped row on one architecture: at_provide compares the code with the prediction. */
static void check_row(const attune_kernel *kernel, const attune_shipped *shipped, int arch)
{
    at_artifact artifact;
    at_cubin cubin;
    attune_problem problem;
    attune_config config;
    attune_reason reason = {""};
    attune_target target = fixture_target(arch);
    assert_ok(attune_problem_parse(shipped->problem, &problem));
    if (!at_kernel_supports(kernel, &problem, &target, &reason)) {
        fail_msg("%s, %s, sm_%d: %s", kernel->name, shipped->problem, arch, reason.text);
    }
    assert_true(kernel->heuristic(&problem, &target, 0, &config));
    if (shipped->config[0] != '\0') {
        assert_ok(at_config_parse(kernel, shipped->config, &config));
    }
    assert_true(at_kernel_fits(kernel, &problem, &target, &config, &reason));
    const at_provider nothing = {0};
    at_recipe recipe;
    at_recipe_ask(kernel, &problem, &target, &config, &recipe);
    assert_ok(at_provide(&nothing, &recipe, &target, &artifact, &cubin));
    for (int i = 0; i < cubin.entry_count; ++i) {
        assert_int_equal(cubin.entry[i].local_bytes, 0);
        assert_int_equal(cubin.entry[i].spill_bytes, 0);
        assert_in_range(cubin.entry[i].registers, 1, 128);
    }
    at_artifact_free(&artifact);
}

static void shipped_rows_are_as_predicted(void **state)
{
    int rows = 0;
    (void)state;
    if (!library_has_images()) {
        skip();
    }
    for (const attune_kernel *const *kernel = at_catalogue; *kernel != NULL; ++kernel) {
        const attune_shipped *shipped = (*kernel)->image != NULL ? (*kernel)->shipped : NULL;
        for (; shipped != NULL && shipped->problem != NULL; ++shipped) {
            for (int i = 0; i < ARCHS; ++i, ++rows) {
                check_row(*kernel, shipped, archs[i]);
            }
        }
    }
    print_message("%d rows\n", rows);
    assert_true(rows > 0);
}

/* ---- PTX, for what came later ---------------------------------------------------------------------------------------
 */

static void ptx_for_what_came_later(void **state)
{
    at_image_code code;
    attune_target target = fixture_target(90);
    made_fatbin made = {.bytes = 16};
    static const char first[] = "// .target\n.version 7.0\n.target sm_80\n", second[] = ".target sm_100a, debug\n";
    (void)state;
    add_entry(&made, 1, first, sizeof first, 0);
    add_entry(&made, 1, second, sizeof second, 0);
    close_fatbin(&made);
    const at_embedded image = {"made", made.data, made.bytes};
    target.arch = 75;
    assert_fails(at_image_ptx(&image, &target, &code), ATTUNE_NOT_FOUND, "no PTX for sm_75");
    target.arch = 90;
    assert_ok(at_image_ptx(&image, &target, &code));
    assert_int_equal(code.arch, 80);
    target.arch = 110;
    assert_ok(at_image_ptx(&image, &target, &code));
    assert_int_equal(code.arch, 100);
    assert_int_equal(code.bytes, sizeof second);
    add_entry(&made, 1, "no target", 9, 0);
    close_fatbin(&made);
    const at_embedded without = {"made", made.data, made.bytes};
    assert_fails(at_image_ptx(&without, &target, &code), ATTUNE_CORRUPT, "no architecture");
}

static void the_librarys_images_have_ptx(void **state)
{
    at_image_code code;
    attune_target target = fixture_target(120);
    (void)state;
    for (const at_embedded *image = images; image->name != NULL; ++image) {
        target.arch = 130;
        assert_ok(at_image_ptx(image, &target, &code));
        assert_int_equal(code.arch, 80);
        assert_non_null(memmem(code.data, code.bytes, ".entry", 6));
    }
}

/* A device whose driver makes code of PTX: what the image has for sm_90, given out as if it were new. */
typedef struct driver_made {
    at_image_code code;
    int asked;
    attune_status status;
} driver_made;

static attune_status assemble(void *context, const char *ptx, size_t bytes, at_artifact *artifact)
{
    driver_made *made = context;
    ++made->asked;
    assert_int_equal(strlen(ptx), bytes);
    assert_non_null(strstr(ptx, ".target sm_80"));
    if (made->status != ATTUNE_OK) {
        return at_fail(made->status, "as asked");
    }
    assert_ok(at_artifact_reserve(artifact, made->code.bytes, 0));
    memcpy(artifact->cubin, made->code.data, made->code.bytes);
    return ATTUNE_OK;
}

static void drivers_make_code_of_ptx(void **state)
{
    driver_made made = {.status = ATTUNE_OK};
    folder cache;
    (void)state;
    if (!library_has_images()) {
        skip();
    }
    assert_int_equal(folder_make(&cache), 0);
    attune_target target = fixture_target(90);
    assert_ok(at_image_choose(images, &target, &made.code));
    unsigned char *copy = image_without_cubins(images);
    const at_embedded later[] = {{images[0].name, copy, images[0].size}, {NULL, NULL, 0}};
    at_provider provider = {.cache = cache.path};
    const attune_kernel *kernel = at_catalogue_find("cutlass");
    attune_problem problem;
    attune_config config;
    at_recipe recipe;
    at_artifact artifact;
    at_cubin cubin;
    assert_ok(attune_problem_parse("b1,h8,s512,d64,fp16", &problem));
    assert_true(kernel->heuristic(&problem, &target, 0, &config));
    at_recipe_ask(kernel, &problem, &target, &config, &recipe);
    recipe.sources = later;
    assert_fails(at_provide(&provider, &recipe, &target, &artifact, &cubin), ATTUNE_UNSUPPORTED, "code for nothing");
    provider.assembler = (at_assembler){assemble, &made, 13000};
    made.status = ATTUNE_COMPILE_ERROR;
    assert_fails(at_provide(&provider, &recipe, &target, &artifact, &cubin), ATTUNE_COMPILE_ERROR, "as asked");
    made.status = ATTUNE_OK;
    for (int i = 0; i < 2; ++i) { /* the second time from the cache */
        assert_ok(at_provide(&provider, &recipe, &target, &artifact, &cubin));
        assert_int_equal(cubin.arch, 90);
        at_artifact_free(&artifact);
    }
    assert_int_equal(made.asked, 2);
    provider.assembler.version = 13010; /* another driver may make better code */
    assert_ok(at_provide(&provider, &recipe, &target, &artifact, &cubin));
    at_artifact_free(&artifact);
    assert_int_equal(made.asked, 3);
    provider.cache = NULL;
    target.arch = 100; /* what comes of it is judged: this is code for sm_90 */
    assert_fails(at_provide(&provider, &recipe, &target, &artifact, &cubin), ATTUNE_COMPILE_ERROR, "sm_90");
    free(copy);
    folder_remove(&cache);
}

/* A kernel is in the catalogue exactly where its image is in the library. */
static void catalogue_and_images_agree(void **state)
{
    int kernels = 0;
    int known = 0;
    (void)state;
    for (const attune_kernel *const *kernel = at_catalogue; *kernel != NULL; ++kernel) {
        kernels += (*kernel)->image != NULL;
    }
    while (at_cuda_images[known].name != NULL) {
        ++known;
    }
    assert_int_equal(kernels, known);
}

/* ---- Files ------------------------------------------------------------------------------------------------------- */

/* A file that is another build's is passed over, and said to be there; the one beside the library is found then. */
static void only_the_librarys_own_file_is_taken(void **state)
{
    char path[256];
    folder f;
    at_embedded image;
    (void)state;
    assert_fails(at_image_read("no_such.fatbin", &image), ATTUNE_NOT_FOUND, "no_such.fatbin is not in this build");
    if (!library_has_images()) {
        skip();
    }
    assert_int_equal(folder_make(&f), 0);
    (void)snprintf(path, sizeof path, "%s/libattune-%s", f.path, images[0].name);
    assert_ok(at_file_write(path, "no fatbin", 9));
    assert_int_equal(setenv("ATTUNE_IMAGES", f.path, 1), 0);
    assert_ok(at_image_read(images[0].name, &image));
    assert_int_equal(image.size, images[0].size);
    free((void *)image.data);
    assert_ok(at_file_write(path, images[0].data, images[0].size));
    assert_ok(at_image_read(images[0].name, &image));
    free((void *)image.data);
    assert_int_equal(unsetenv("ATTUNE_IMAGES"), 0);
    folder_remove(&f);
}

static void an_image_that_is_not_there_is_reported(void **state)
{
    static const at_embedded none[] = {{NULL, NULL, 0}};
    at_artifact artifact;
    const at_provider nothing = {0};
    attune_kernel kernel = fixture_kernel;
    attune_problem problem = fixture_problem();
    attune_target target = fixture_target(90);
    (void)state;
    kernel.source = NULL;
    kernel.image = "fixture.fatbin";
    at_recipe recipe;
    at_recipe_ask(&kernel, &problem, &target, &fixture_config, &recipe);
    recipe.sources = none;
    assert_fails(at_provide(&nothing, &recipe, &target, &artifact, NULL), ATTUNE_NOT_FOUND, "fixture.fatbin");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_fatbin_is_reported),
        cmocka_unit_test(compressed_code_is_reported),
        cmocka_unit_test(damage_is_survived),
        cmocka_unit_test(every_architecture_has_code),
        cmocka_unit_test(devices_in_between_find_code),
        cmocka_unit_test(shipped_rows_are_as_predicted),
        cmocka_unit_test(only_the_librarys_own_file_is_taken),
        cmocka_unit_test(catalogue_and_images_agree),
        cmocka_unit_test(an_image_that_is_not_there_is_reported),
        cmocka_unit_test(ptx_for_what_came_later),
        cmocka_unit_test(the_librarys_images_have_ptx),
        cmocka_unit_test(drivers_make_code_of_ptx),
    };
    return cmocka_run_group_tests(tests, read_images, free_images);
}
