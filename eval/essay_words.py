"""What eval/essay.py makes sentences of: `slot: one | another`, a slot in braces stands for any of its words.

GENERAL serves every paragraph, a TOPICS block one. Written for this project; no digits and no hyphens, so that no
number and no key of a needle task can stand in it by accident, and none of the words of the San Francisco needle.
"""

GENERAL = """
sentence: {when}, {who} {did} | {who} {did} {when}, {though} | {who} {did} {where} | {claim}
sentence: near {place}, {who} {did}, {though} | {who} {did}, and {when} {other} {did} | {claim}, {though}
sentence: it took {who} {span} to notice that {claim} | {people} say that {claim}, but {who} thought otherwise
sentence: {what} near {place} was {quality} of {thing} | nobody near {place} asked why {who} {did}
sentence: {when}, {thing} {seemed} {adj} to {other}, and {who} {did} | {open}, {claim}
sentence: {open}, {who} {did} {when} | {who} {thought} that {claim}, and {did}
sentence: if {thing} is {adj}, {people} {forgive} {things} | {things} {taught} {who} {lesson}
sentence: after {span}, {thing} {seemed} {adj}, {though} | {who} and {other} {argued} about {things} {when}
sentence: most {things} near {place} were {adj}, {though} | {people} who care for {things} {seldom} {complain}
claim: {thing} is {more} {adj} than it looks | {things} {seldom} turn {adj} by accident | {thing} rewards {virtue}
claim: {things} are {more} {adj} when {people} leave them alone | there is {virtue} in {things}
claim: {virtue} counts for more than {quality} of {thing} | {things} {seldom} come from {virtue} alone
claim: {people} learn {virtue} from {things} | {thing} keeps {quality} of {place}
other: the neighbour upstairs | a retired teacher | my oldest friend | the new tenant | a patient stranger
other: the boy next door | someone from the village | a visitor from the coast | the night porter
when: last autumn | on a grey morning | late in the evening | before breakfast | some years ago | one winter
when: as soon as the rain stopped | in the first week of spring | without any hurry | for the third time
when: during a long holiday | just after the bells had rung | while the kettle boiled | on the way home
where: by the open window | under a low lamp | in the back room | beside the stove | across the yard | near the gate
where: at the end of the lane | behind the post office | on the stairs | in the corner of the hall | next to {place}
though: though {thing} was still {adj} | although {people} had warned against {things} | which surprised {other}
though: as if {thing} had been {adj} all along | even if {things} cost more that year | and {other} was glad of it
though: but {thing} stayed {adj} | so {other} wrote it down | because {things} had become {adj}
thought: thought | believed | suspected | insisted | guessed | was certain
seemed: seemed | looked | felt | had become | was
taught: taught | had shown | gave
lesson: more than any book | a little about {virtue} | that haste is dear | to look twice | when to stop
argued: argued | joked | wondered | wrote to each other | agreed
open: in the end | as a rule | to be fair | looking back | oddly enough | at first | as far as anyone could tell
open: on the whole | for all that | strange as it sounds | in practice | once in a while
people: people | most of us | beginners | careful people | old hands | children | critics | travellers
what: what {who} liked | what {other} remembered | the best thing | the first thing {other} noticed
quality: the colour | the weight | the smell | the price | the quiet | the age | the shape | the plainness
virtue: patience | curiosity | a steady hand | good company | honest work | doubt | practice | a free afternoon
virtue: attention | stubbornness | a sense of proportion | politeness | thrift
more: more | a little more | far more | rather more | no more | hardly more
seldom: seldom | rarely | almost never | sometimes | often
complain: complain | hurry | explain themselves | regret it | sleep badly
forgive: forgive | forget | put up with | go on buying | grow fond of
span: a month | several years | one long winter | half an hour | a whole season | many evenings | two attempts
adj: useful | quiet | simple | strange | pleasant | stubborn | ordinary | delicate | cheerful | dull | costly | modest
adj: reliable | untidy | graceful | serious | forgotten | honest | comfortable | awkward | fragile | familiar
"""

TOPICS = """
who: the baker | my grandmother | the apprentice | the miller
did: kneaded {thing} by hand | burned {things} | gave {things} away | carried flour to {place} | tasted {thing} again
did: changed the recipe | waited for the oven | swept the floor around {thing}
thing: the dough | the rye loaf | the crust | the copper oven | the sourdough | the plum cake
things: small rolls | rye loaves | seed cakes | paper bags | heavy pans | wedding cakes
place: the bakery | the mill | the narrow kitchen | the cellar

who: the gardener | the widow at number nine | the beekeeper | a botanist
did: planted {things} | moved {thing} into the shade | cut back {things} | watered {thing} | drew {thing} from memory
did: counted the snails | blamed the frost for {things} | left {thing} to the bees
thing: the pear tree | the compost heap | the rose hedge | the greenhouse | the oldest fig | the pond
things: tulips | bean rows | wild herbs | clay pots | seedlings | apple trees
place: the walled garden | the allotment | the orchard | the nursery

who: the mechanic | the postman | a courier | my cousin
did: oiled {thing} | rode past {place} | mended {things} | sold {thing} for very little | lost {things} on a hill
did: painted {thing} green | pushed {thing} home | borrowed {things} from {other}
thing: the bicycle | the front wheel | the rusty chain | the saddle | the brass bell | the hill road
things: spare tyres | steel frames | brake cables | long descents | racing bikes | repair stands
place: the workshop | the shed | the cycle path | the station yard

who: the ferryman | an angler | the lock keeper | the miller's daughter
did: watched {thing} from the bank | tied up {things} | measured {thing} with a stick | rowed towards {place}
did: waited for {things} | followed {thing} upstream | told {other} about {things}
thing: the river | the stone bridge | the weir | the tide | the flat boat | the mooring
things: eels | flat barges | willow roots | herons | fishing nets | spring floods
place: the delta | the landing | the old harbour | the valley

who: the conductor | a commuter | the signalman | the station master
did: missed {thing} | slept through {things} | drew a map of {place} | held {thing} for {other} | studied {things}
did: wrote a poem about {thing} | counted {things} aloud | shared {thing} with a stranger
thing: the night train | the dining car | the timetable | the branch line | the platform clock | the tunnel
things: sleeping cars | printed tickets | local trains | leather suitcases | signal lamps | late connections
place: the terminus | the waiting room | the border station | the second carriage

who: the librarian | a student | the translator | the bookbinder
did: catalogued {things} | read {thing} twice | hid {things} behind the atlas | copied a page of {thing}
did: dusted {things} | lent {thing} to {other} | looked for {things} | wrote notes in {thing}
thing: the dictionary | the reading room | the novel | the card index | the preface | the torn atlas
things: footnotes | paper covers | rare editions | travel books | margins | long novels
place: the library | the archive | the second bookshop | the basement stacks

who: the cellist | a choir boy | the piano tuner | the organist
did: practised {thing} | forgot {things} | played {thing} too fast | hummed in {place} | tuned {things}
did: wept over {thing} | taught {other} {things} | recorded {thing} in one take
thing: the slow movement | the piano | the old hymn | the second theme | the rehearsal | the silence between two notes
things: scales | folk songs | string quartets | wooden flutes | waltzes | long rests
place: the concert hall | the chapel | the practice room | the bandstand

who: the fishmonger | a street vendor | the accountant | the cheese seller
did: weighed {things} | lowered the price of {thing} | set up {thing} | bought {things} on credit
did: shouted about {things} | traded {thing} with {other} | counted the money | covered {things} with a cloth
thing: the stall | the brass scale | the ledger | the blue cheese | the first customer | the awning
things: lemons | smoked fish | woollen socks | second hand spoons | baskets | winter apples
place: the market square | the arcade | the covered hall | the warehouse

who: the watchmaker | the jeweller | my uncle | the bell ringer
did: opened {thing} | set {things} an hour ahead | listened to {thing} | cleaned {things} | dropped {thing}
did: kept {things} in a drawer | repaired {thing} for {other} | forgot to wind {things}
thing: the tower clock | the pendulum | the mainspring | the hourglass | the silver watch | the dial
things: alarm clocks | tiny screws | sundials | gold hands | wall clocks | glass covers
place: the tower | the repair counter | the attic | the clock museum

who: the carpenter | an architect | the landlady | the roofer
did: measured {thing} | sanded {things} | knocked on {thing} | argued for {things} | patched {thing}
did: drew plans of {place} | took {things} apart | left {thing} unfinished | nailed {things} to the wall
thing: the staircase | the front door | the oak table | the chimney | the balcony | the roof beam
things: window frames | door handles | floor boards | tall shelves | brick walls | kitchen chairs
place: the cottage | the building site | the loft | the timber yard

who: the surveyor | a sailor | the geography teacher | the mountain guide
did: folded {thing} | traced {things} | walked to {place} | doubted {thing} | coloured {things} by hand
did: misread {thing} | asked {other} about {things} | found {thing} by chance
thing: the map | the compass | the coast road | the contour line | the lighthouse | the summit
things: footpaths | sea charts | place names | stone cairns | short cuts | mountain passes
place: the ridge | the map room | the peninsula | the last hut

who: the potter | a glass blower | the art student | the kiln master
did: glazed {things} | threw {thing} away | fired {things} overnight | signed {thing} | stacked {things}
did: cracked {thing} | packed {things} in straw | showed {thing} to {other}
thing: the kiln | the blue bowl | the wheel | the wet clay | the tall vase | the glaze
things: teapots | tiles | broken cups | plates | water jars | little figures
place: the studio | the clay pit | the gallery | the craft fair

who: the shepherd | the vet | my sister | a dog trainer
did: called {thing} | walked {things} around {place} | brushed {thing} | fed {things} | lost sight of {thing}
did: whistled for {things} | argued with {other} over {thing} | slept beside {things}
thing: the sheepdog | the grey cat | the goat | the muddy puppy | the pony | the flock
things: lambs | working dogs | geese | stable cats | donkeys | hens
place: the pasture | the barn | the kennel | the hill farm

who: the meteorologist | a pilot | the harvest crew | the radio announcer
did: predicted {thing} | cursed {things} | photographed {things} | waited out {thing} | misjudged {things}
did: wrote down {thing} | flew around {things} | blamed {thing} on {place}
thing: the storm | the barometer | the morning fog | the north wind | the forecast | the late snow
things: rain clouds | cold fronts | hail showers | dry summers | weather balloons | thaws
place: the airfield | the observatory | the wheat fields | the weather station
"""
