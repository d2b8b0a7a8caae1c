/* Opens libraries in the order of the arguments, as a program's plug-ins do, and counts the devices by the last one.
 * Prints a line for each mapped libibverbs. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

static int print_verbs(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	(void)data;
	if (strstr(info->dlpi_name, "ibverbs"))
		printf("mapped %s\n", info->dlpi_name);
	return 0;
}

int main(int argc, char **argv)
{
	void **(*list)(int *) = NULL;
	int count = -1;

	for (int i = 1; i < argc; i++) {
		void *library = dlopen(argv[i], RTLD_NOW);

		if (!library) {
			puts(dlerror());
			return 1;
		}
		list = (void **(*)(int *))dlsym(library, "ibv_get_device_list");
	}
	if (list)
		list(&count);
	printf("%d devices\n", count);
	dl_iterate_phdr(print_verbs, NULL);
	return 0;
}
