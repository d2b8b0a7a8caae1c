/* Counts the devices, and prints which file the verbs come from. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdio.h>

int main(void)
{
	int count = 0;
	Dl_info from = {0};

	if (!ibv_get_device_list(&count))
		count = -1;
	dladdr((void *)ibv_get_device_list, &from);
	printf("%d devices by %s\n", count, from.dli_fname);
	return 0;
}
