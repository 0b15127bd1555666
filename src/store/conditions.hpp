//! The former name of request_checks.hpp, for those that still include it.
#pragma once

#include "request_checks.hpp"
