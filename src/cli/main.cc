#include "cli/command.h"

int main(int argc, char** argv) { return favor::cli::Main(argc, argv); }
