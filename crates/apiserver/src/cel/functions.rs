//! Which functions and operators there are, and what they take and give.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::LazyLock;

use super::typing::{Type, Unknowns};

/// One way to call a function.
#[derive(Debug)]
pub(super) struct Overload {
    pub(super) id: &'static str,
    /// Called on a receiver, which is then the first argument.
    pub(super) is_member: bool,
    args: Vec<Pattern>,
    result: Pattern,
}

/// A type as declared.
#[derive(Debug)]
enum Pattern {
    Plain(&'static str),
    List(Box<Self>),
    Map(Box<Self>, Box<Self>),
    Optional(Box<Self>),
    Type(Box<Self>),
    /// A single capital letter: any type, but the same one wherever the letter stands.
    Parameter(char),
}

/// All ways to call a function of this name.
pub(super) fn overloads(function: &str) -> Option<&'static [Overload]> {
    static TABLE: LazyLock<HashMap<&'static str, Vec<Overload>>> = LazyLock::new(build);
    TABLE.get(function).map(Vec::as_slice)
}

/// The type that an identifier of the language names.
pub(super) fn named_type<'s>(name: &str) -> Option<Type<'s>> {
    Some(match name {
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "double" => Type::Double,
        "duration" | "google.protobuf.Duration" => Type::Duration,
        "int" => Type::Int,
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "null_type" => Type::Null,
        "string" => Type::Text,
        "timestamp" | "google.protobuf.Timestamp" => Type::Timestamp,
        "type" => Type::Kind(Rc::new(Type::Dyn)),
        "uint" => Type::Uint,
        "optional_type" => Type::optional(Type::Dyn),
        "net.IP" => Type::Library("net.IP"),
        "net.CIDR" => Type::Library("net.CIDR"),
        _ => return None,
    })
}

impl Overload {
    /// The argument and result types, with fresh unknowns for the parameters.
    pub(super) fn instantiate<'s>(&self, unknowns: &mut Unknowns<'s>) -> (Vec<Type<'s>>, Type<'s>) {
        let mut parameters = Vec::new();
        let args = self.args.iter().map(|arg| arg.instantiate(&mut parameters, unknowns)).collect();
        let result = self.result.instantiate(&mut parameters, unknowns);
        (args, result)
    }
}

impl Pattern {
    fn instantiate<'s>(
        &self,
        parameters: &mut Vec<(char, Type<'s>)>,
        unknowns: &mut Unknowns<'s>,
    ) -> Type<'s> {
        match self {
            Self::Plain(name) => plain(name),
            Self::List(element) => Type::list(element.instantiate(parameters, unknowns)),
            Self::Map(key, value) => Type::map(
                key.instantiate(parameters, unknowns),
                value.instantiate(parameters, unknowns),
            ),
            Self::Optional(inner) => Type::optional(inner.instantiate(parameters, unknowns)),
            Self::Type(inner) => Type::Kind(Rc::new(inner.instantiate(parameters, unknowns))),
            Self::Parameter(letter) => {
                if let Some((_, known)) = parameters.iter().find(|(l, _)| l == letter) {
                    return known.clone();
                }
                let fresh = unknowns.fresh();
                parameters.push((*letter, fresh.clone()));
                fresh
            }
        }
    }

    /// Reads `map(string,list(A))`.
    fn read(text: &'static str) -> Self {
        let inner =
            |prefix: &str| -> Option<&'static str> { text.strip_prefix(prefix)?.strip_suffix(')') };
        if let Some(element) = inner("list(") {
            return Self::List(Box::new(Self::read(element)));
        }
        if let Some(parts) = inner("map(") {
            let (key, value) = parts.split_once(',').unwrap_or((parts, "dyn"));
            return Self::Map(Box::new(Self::read(key)), Box::new(Self::read(value)));
        }
        if let Some(value) = inner("optional(") {
            return Self::Optional(Box::new(Self::read(value)));
        }
        if let Some(value) = inner("type(") {
            return Self::Type(Box::new(Self::read(value)));
        }
        match (text.chars().next(), text.len()) {
            (Some(letter), 1) => Self::Parameter(letter),
            _ => Self::Plain(text),
        }
    }
}

fn plain<'s>(name: &'static str) -> Type<'s> {
    match name {
        "dyn" => Type::Dyn,
        name => named_type(name).unwrap_or(Type::Library(name)),
    }
}

fn build() -> HashMap<&'static str, Vec<Overload>> {
    let mut table: HashMap<&'static str, Vec<Overload>> = HashMap::new();
    for line in [OPERATORS, STANDARD, TIME, STRINGS, LISTS, OPTIONALS, KUBERNETES, AUTHORIZATION]
        .iter()
        .flat_map(|text| text.lines())
        .filter(|line| !line.trim().is_empty())
    {
        let mut words = line.split_whitespace();
        let (Some(function), Some(id)) = (words.next(), words.next()) else { continue };
        let (function, is_member) = match function.strip_prefix('.') {
            Some(name) => (name, true),
            None => (function, false),
        };
        let mut types: Vec<Pattern> = words.map(Pattern::read).collect();
        let Some(result) = types.pop() else { continue };
        table.entry(function).or_default().push(Overload { id, is_member, args: types, result });
    }
    table
}

// One overload a line: function (with a dot: called on a receiver), overload, arguments, result.

const OPERATORS: &str = "
_?_:_ conditional bool A A A
_&&_ logical_and bool bool bool
_||_ logical_or bool bool bool
!_ logical_not bool bool
@not_strictly_false not_strictly_false bool bool
_==_ equals A A bool
_!=_ not_equals A A bool
_+_ add_bytes bytes bytes bytes
_+_ add_double double double double
_+_ add_duration_duration duration duration duration
_+_ add_duration_timestamp duration timestamp timestamp
_+_ add_timestamp_duration timestamp duration timestamp
_+_ add_int64 int int int
_+_ add_list list(A) list(A) list(A)
_+_ add_string string string string
_+_ add_uint64 uint uint uint
_/_ divide_double double double double
_/_ divide_int64 int int int
_/_ divide_uint64 uint uint uint
_%_ modulo_int64 int int int
_%_ modulo_uint64 uint uint uint
_*_ multiply_double double double double
_*_ multiply_int64 int int int
_*_ multiply_uint64 uint uint uint
-_ negate_double double double
-_ negate_int64 int int
_-_ subtract_double double double double
_-_ subtract_duration_duration duration duration duration
_-_ subtract_int64 int int int
_-_ subtract_timestamp_duration timestamp duration timestamp
_-_ subtract_timestamp_timestamp timestamp timestamp duration
_-_ subtract_uint64 uint uint uint
_<_ less_bool bool bool bool
_<_ less_int64 int int bool
_<_ less_int64_double int double bool
_<_ less_int64_uint64 int uint bool
_<_ less_uint64 uint uint bool
_<_ less_uint64_double uint double bool
_<_ less_uint64_int64 uint int bool
_<_ less_double double double bool
_<_ less_double_int64 double int bool
_<_ less_double_uint64 double uint bool
_<_ less_string string string bool
_<_ less_bytes bytes bytes bool
_<_ less_timestamp timestamp timestamp bool
_<_ less_duration duration duration bool
_<=_ less_equals_bool bool bool bool
_<=_ less_equals_int64 int int bool
_<=_ less_equals_int64_double int double bool
_<=_ less_equals_int64_uint64 int uint bool
_<=_ less_equals_uint64 uint uint bool
_<=_ less_equals_uint64_double uint double bool
_<=_ less_equals_uint64_int64 uint int bool
_<=_ less_equals_double double double bool
_<=_ less_equals_double_int64 double int bool
_<=_ less_equals_double_uint64 double uint bool
_<=_ less_equals_string string string bool
_<=_ less_equals_bytes bytes bytes bool
_<=_ less_equals_timestamp timestamp timestamp bool
_<=_ less_equals_duration duration duration bool
_>_ greater_bool bool bool bool
_>_ greater_int64 int int bool
_>_ greater_int64_double int double bool
_>_ greater_int64_uint64 int uint bool
_>_ greater_uint64 uint uint bool
_>_ greater_uint64_double uint double bool
_>_ greater_uint64_int64 uint int bool
_>_ greater_double double double bool
_>_ greater_double_int64 double int bool
_>_ greater_double_uint64 double uint bool
_>_ greater_string string string bool
_>_ greater_bytes bytes bytes bool
_>_ greater_timestamp timestamp timestamp bool
_>_ greater_duration duration duration bool
_>=_ greater_equals_bool bool bool bool
_>=_ greater_equals_int64 int int bool
_>=_ greater_equals_int64_double int double bool
_>=_ greater_equals_int64_uint64 int uint bool
_>=_ greater_equals_uint64 uint uint bool
_>=_ greater_equals_uint64_double uint double bool
_>=_ greater_equals_uint64_int64 uint int bool
_>=_ greater_equals_double double double bool
_>=_ greater_equals_double_int64 double int bool
_>=_ greater_equals_double_uint64 double uint bool
_>=_ greater_equals_string string string bool
_>=_ greater_equals_bytes bytes bytes bool
_>=_ greater_equals_timestamp timestamp timestamp bool
_>=_ greater_equals_duration duration duration bool
_[_] index_list list(A) int A
_[_] index_map map(A,B) A B
_[_] optional_list_index_int optional(list(V)) int optional(V)
_[_] optional_map_index_value optional(map(K,V)) K optional(V)
_[?_] list_optindex_optional_int list(V) int optional(V)
_[?_] optional_list_optindex_optional_int optional(list(V)) int optional(V)
_[?_] map_optindex_optional_value map(K,V) K optional(V)
_[?_] optional_map_optindex_optional_value optional(map(K,V)) K optional(V)
@in in_list A list(A) bool
@in in_map A map(A,B) bool
cel.@mapInsert @mapInsert_map_key_value map(K,V) K V map(K,V)
cel.@mapInsert @mapInsert_map_map map(K,V) map(K,V) map(K,V)
";

const STANDARD: &str = "
size size_bytes bytes int
.size bytes_size bytes int
size size_list list(A) int
.size list_size list(A) int
size size_map map(A,B) int
.size map_size map(A,B) int
size size_string string int
.size string_size string int
type type A type(A)
bool bool_to_bool bool bool
bool string_to_bool string bool
bytes bytes_to_bytes bytes bytes
bytes string_to_bytes string bytes
double double_to_double double double
double int64_to_double int double
double string_to_double string double
double uint64_to_double uint double
duration duration_to_duration duration duration
duration int64_to_duration int duration
duration string_to_duration string duration
dyn to_dyn A dyn
int int64_to_int64 int int
int double_to_int64 double int
int duration_to_int64 duration int
int string_to_int64 string int
int timestamp_to_int64 timestamp int
int uint64_to_int64 uint int
string string_to_string string string
string bool_to_string bool string
string bytes_to_string bytes string
string double_to_string double string
string duration_to_string duration string
string int64_to_string int string
string timestamp_to_string timestamp string
string uint64_to_string uint string
string ip_to_string net.IP string
string cidr_to_string net.CIDR string
timestamp timestamp_to_timestamp timestamp timestamp
timestamp int64_to_timestamp int timestamp
timestamp string_to_timestamp string timestamp
uint uint64_to_uint64 uint uint
uint double_to_uint64 double uint
uint int64_to_uint64 int uint
uint string_to_uint64 string uint
.contains contains_string string string bool
.endsWith ends_with_string string string bool
.startsWith starts_with_string string string bool
matches matches string string bool
.matches matches_string string string bool
";

const TIME: &str = "
.getFullYear timestamp_to_year timestamp int
.getFullYear timestamp_to_year_with_tz timestamp string int
.getMonth timestamp_to_month timestamp int
.getMonth timestamp_to_month_with_tz timestamp string int
.getDayOfYear timestamp_to_day_of_year timestamp int
.getDayOfYear timestamp_to_day_of_year_with_tz timestamp string int
.getDayOfMonth timestamp_to_day_of_month timestamp int
.getDayOfMonth timestamp_to_day_of_month_with_tz timestamp string int
.getDate timestamp_to_day_of_month_1_based timestamp int
.getDate timestamp_to_day_of_month_1_based_with_tz timestamp string int
.getDayOfWeek timestamp_to_day_of_week timestamp int
.getDayOfWeek timestamp_to_day_of_week_with_tz timestamp string int
.getHours timestamp_to_hours timestamp int
.getHours timestamp_to_hours_with_tz timestamp string int
.getHours duration_to_hours duration int
.getMinutes timestamp_to_minutes timestamp int
.getMinutes timestamp_to_minutes_with_tz timestamp string int
.getMinutes duration_to_minutes duration int
.getSeconds timestamp_to_seconds timestamp int
.getSeconds timestamp_to_seconds_tz timestamp string int
.getSeconds duration_to_seconds duration int
.getMilliseconds timestamp_to_milliseconds timestamp int
.getMilliseconds timestamp_to_milliseconds_with_tz timestamp string int
.getMilliseconds duration_to_milliseconds duration int
";

const STRINGS: &str = "
.charAt string_char_at_int string int string
.indexOf string_index_of_string string string int
.indexOf string_index_of_string_int string string int int
.lastIndexOf string_last_index_of_string string string int
.lastIndexOf string_last_index_of_string_int string string int int
.lowerAscii string_lower_ascii string string
.replace string_replace_string_string string string string string
.replace string_replace_string_string_int string string string int string
.split string_split_string string string list(string)
.split string_split_string_int string string int list(string)
.substring string_substring_int string int string
.substring string_substring_int_int string int int string
.trim string_trim string string
.upperAscii string_upper_ascii string string
.format string_format string list(dyn) string
strings.quote strings_quote string string
.join list_join list(string) string
.join list_join_string list(string) string string
.find string_find_string string string string
.findAll string_find_all_string string string list(string)
.findAll string_find_all_string_int string string int list(string)
";

const LISTS: &str = "
.slice list_slice list(T) int int list(T)
.flatten list_flatten list(list(T)) list(T)
.flatten list_flatten_int list(dyn) int list(dyn)
.sort list_int_sort list(int) list(int)
.sort list_uint_sort list(uint) list(uint)
.sort list_double_sort list(double) list(double)
.sort list_bool_sort list(bool) list(bool)
.sort list_duration_sort list(duration) list(duration)
.sort list_timestamp_sort list(timestamp) list(timestamp)
.sort list_string_sort list(string) list(string)
.sort list_bytes_sort list(bytes) list(bytes)
.@sortByAssociatedKeys list_int_sortByAssociatedKeys list(T) list(int) list(T)
.@sortByAssociatedKeys list_uint_sortByAssociatedKeys list(T) list(uint) list(T)
.@sortByAssociatedKeys list_double_sortByAssociatedKeys list(T) list(double) list(T)
.@sortByAssociatedKeys list_bool_sortByAssociatedKeys list(T) list(bool) list(T)
.@sortByAssociatedKeys list_duration_sortByAssociatedKeys list(T) list(duration) list(T)
.@sortByAssociatedKeys list_timestamp_sortByAssociatedKeys list(T) list(timestamp) list(T)
.@sortByAssociatedKeys list_string_sortByAssociatedKeys list(T) list(string) list(T)
.@sortByAssociatedKeys list_bytes_sortByAssociatedKeys list(T) list(bytes) list(T)
lists.range lists_range int list(int)
.reverse list_reverse list(T) list(T)
.distinct list_distinct list(T) list(T)
.isSorted list_int_is_sorted_bool list(int) bool
.isSorted list_uint_is_sorted_bool list(uint) bool
.isSorted list_double_is_sorted_bool list(double) bool
.isSorted list_bool_is_sorted_bool list(bool) bool
.isSorted list_duration_is_sorted_bool list(duration) bool
.isSorted list_timestamp_is_sorted_bool list(timestamp) bool
.isSorted list_string_is_sorted_bool list(string) bool
.isSorted list_bytes_is_sorted_bool list(bytes) bool
.sum list_int_sum_int list(int) int
.sum list_uint_sum_uint list(uint) uint
.sum list_double_sum_double list(double) double
.sum list_duration_sum_duration list(duration) duration
.max list_int_max_int list(int) int
.max list_uint_max_uint list(uint) uint
.max list_double_max_double list(double) double
.max list_bool_max_bool list(bool) bool
.max list_duration_max_duration list(duration) duration
.max list_timestamp_max_timestamp list(timestamp) timestamp
.max list_string_max_string list(string) string
.max list_bytes_max_bytes list(bytes) bytes
.min list_int_min_int list(int) int
.min list_uint_min_uint list(uint) uint
.min list_double_min_double list(double) double
.min list_bool_min_bool list(bool) bool
.min list_duration_min_duration list(duration) duration
.min list_timestamp_min_timestamp list(timestamp) timestamp
.min list_string_min_string list(string) string
.min list_bytes_min_bytes list(bytes) bytes
.indexOf list_a_index_of_int list(A) A int
.lastIndexOf list_a_last_index_of_int list(A) A int
sets.contains list_sets_contains_list list(T) list(T) bool
sets.equivalent list_sets_equivalent_list list(T) list(T) bool
sets.intersects list_sets_intersects_list list(T) list(T) bool
";

const OPTIONALS: &str = "
optional.of optional_of V optional(V)
optional.ofNonZeroValue optional_ofNonZeroValue V optional(V)
optional.none optional_none optional(V)
.value optional_value optional(V) V
.hasValue optional_hasValue optional(V) bool
.or optional_or_optional optional(V) optional(V) optional(V)
.orValue optional_orValue_value optional(V) V V
.first list_first list(V) optional(V)
.last list_last list(V) optional(V)
optional.unwrap optional_unwrap list(optional(V)) list(V)
.unwrapOpt optional_unwrapOpt list(optional(V)) list(V)
";

const KUBERNETES: &str = "
url string_to_url string kubernetes.URL
isURL is_url_string string bool
.getScheme url_get_scheme kubernetes.URL string
.getHost url_get_host kubernetes.URL string
.getHostname url_get_hostname kubernetes.URL string
.getPort url_get_port kubernetes.URL string
.getEscapedPath url_get_escaped_path kubernetes.URL string
.getQuery url_get_query kubernetes.URL map(string,list(string))
quantity string_to_quantity string kubernetes.Quantity
isQuantity is_quantity_string string bool
sign quantity_sign kubernetes.Quantity int
.isGreaterThan quantity_is_greater_than kubernetes.Quantity kubernetes.Quantity bool
.isLessThan quantity_is_less_than kubernetes.Quantity kubernetes.Quantity bool
.compareTo quantity_compare_to kubernetes.Quantity kubernetes.Quantity int
.asApproximateFloat quantity_get_float kubernetes.Quantity double
.asInteger quantity_get_int kubernetes.Quantity int
.isInteger quantity_is_integer kubernetes.Quantity bool
.add quantity_add kubernetes.Quantity kubernetes.Quantity kubernetes.Quantity
.add quantity_add_int kubernetes.Quantity int kubernetes.Quantity
.sub quantity_sub kubernetes.Quantity kubernetes.Quantity kubernetes.Quantity
.sub quantity_sub_int kubernetes.Quantity int kubernetes.Quantity
semver string_to_semver string kubernetes.Semver
semver string_bool_to_semver string bool kubernetes.Semver
isSemver is_semver_string string bool
isSemver is_semver_string_bool string bool bool
.isGreaterThan semver_is_greater_than kubernetes.Semver kubernetes.Semver bool
.isLessThan semver_is_less_than kubernetes.Semver kubernetes.Semver bool
.compareTo semver_compare_to kubernetes.Semver kubernetes.Semver int
.major semver_major kubernetes.Semver int
.minor semver_minor kubernetes.Semver int
.patch semver_patch kubernetes.Semver int
ip string_to_ip string net.IP
isIP is_ip string bool
ip.isCanonical ip_is_canonical string bool
.family ip_family net.IP int
.isUnspecified ip_is_unspecified net.IP bool
.isLoopback ip_is_loopback net.IP bool
.isLinkLocalMulticast ip_is_link_local_multicast net.IP bool
.isLinkLocalUnicast ip_is_link_local_unicast net.IP bool
.isGlobalUnicast ip_is_global_unicast net.IP bool
cidr string_to_cidr string net.CIDR
isCIDR is_cidr string bool
.containsIP cidr_contains_ip_string net.CIDR string bool
.containsIP cidr_contains_ip_ip net.CIDR net.IP bool
.containsCIDR cidr_contains_cidr_string net.CIDR string bool
.containsCIDR cidr_contains_cidr net.CIDR net.CIDR bool
.ip cidr_ip net.CIDR net.IP
.prefixLength cidr_prefix_length net.CIDR int
.masked cidr_masked net.CIDR net.CIDR
.validate format-validate kubernetes.NamedFormat string optional(list(string))
format.named format-named string optional(kubernetes.NamedFormat)
format.dns1123Label format.dns1123Label kubernetes.NamedFormat
format.dns1123Subdomain format.dns1123Subdomain kubernetes.NamedFormat
format.dns1035Label format.dns1035Label kubernetes.NamedFormat
format.qualifiedName format.qualifiedName kubernetes.NamedFormat
format.dns1123LabelPrefix format.dns1123LabelPrefix kubernetes.NamedFormat
format.dns1123SubdomainPrefix format.dns1123SubdomainPrefix kubernetes.NamedFormat
format.dns1035LabelPrefix format.dns1035LabelPrefix kubernetes.NamedFormat
format.labelValue format.labelValue kubernetes.NamedFormat
format.uri format.uri kubernetes.NamedFormat
format.uuid format.uuid kubernetes.NamedFormat
format.byte format.byte kubernetes.NamedFormat
format.date format.date kubernetes.NamedFormat
format.datetime format.datetime kubernetes.NamedFormat
";

/// Rules of custom resources have no authorizer, so that these can never be called; but the names
/// are known.
const AUTHORIZATION: &str = "
.path authorizer_path kubernetes.authorization.Authorizer string kubernetes.authorization.PathCheck
.group authorizer_group kubernetes.authorization.Authorizer string kubernetes.authorization.GroupCheck
.serviceAccount authorizer_serviceaccount kubernetes.authorization.Authorizer string string kubernetes.authorization.Authorizer
.resource groupcheck_resource kubernetes.authorization.GroupCheck string kubernetes.authorization.ResourceCheck
.subresource resourcecheck_subresource kubernetes.authorization.ResourceCheck string kubernetes.authorization.ResourceCheck
.namespace resourcecheck_namespace kubernetes.authorization.ResourceCheck string kubernetes.authorization.ResourceCheck
.name resourcecheck_name kubernetes.authorization.ResourceCheck string kubernetes.authorization.ResourceCheck
.check pathcheck_check kubernetes.authorization.PathCheck string kubernetes.authorization.Decision
.check resourcecheck_check kubernetes.authorization.ResourceCheck string kubernetes.authorization.Decision
.errored decision_errored kubernetes.authorization.Decision bool
.error decision_error kubernetes.authorization.Decision string
.allowed decision_allowed kubernetes.authorization.Decision bool
.reason decision_reason kubernetes.authorization.Decision string
.fieldSelector authorizer_fieldselector kubernetes.authorization.ResourceCheck string kubernetes.authorization.ResourceCheck
.labelSelector authorizer_labelselector kubernetes.authorization.ResourceCheck string kubernetes.authorization.ResourceCheck
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_read_as_written() {
        let index = &overloads("_[_]").unwrap()[1];
        let mut unknowns = Unknowns::default();
        let (args, result) = index.instantiate(&mut unknowns);
        let shown: Vec<String> = args.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["map(_var0, _var1)", "_var0"]);
        assert_eq!(result.to_string(), "_var1");
        assert!(overloads("join").unwrap().iter().all(|o| o.is_member));
        assert!(overloads("nonesuch").is_none());
    }
}
